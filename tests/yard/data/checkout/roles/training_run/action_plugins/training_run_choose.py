"""Action plugin of the tests: chooses the nodes, with results like the real one's."""

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """Takes the first hosts of the play; all must be fit."""

    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        count = int(self._task.args["count"])
        chosen = task_vars["ansible_play_hosts"][:count]
        hostvars = task_vars["hostvars"]
        problems = [
            {
                "code": "no_directory",
                "values": {"path": hostvars[host]["node_root"]},
                "text": f"there is no {hostvars[host]['node_root']}: run make setup",
                "host": host,
            }
            for host in chosen
            if not hostvars[host]["probed"]["stat"]["exists"]
        ]
        problems += [
            {
                "code": "dataset_missing",
                "values": {"dataset": task_vars["training_run_dataset"]},
                "text": f"it does not hold {task_vars['training_run_dataset']}",
                "host": host,
            }
            for host in chosen
            if not hostvars[host]["dataset"].get("stat", {"exists": True})["exists"]
        ]
        problems += [
            {
                "code": "held",
                "values": {"run": "other", "owner": "ada@desk", "since": "12:00"},
                "text": "it is held by run other of ada@desk since 12:00",
                "host": host,
            }
            for host in chosen
            if Path(hostvars[host]["node_root"], "held").exists()
        ]
        if problems:
            lines = [f"{problem['host']}: {problem['text']}" for problem in problems]
            first = f"Too few nodes: {count} needed, 0 fit. Nothing was started."
            return {
                **result,
                "failed": True,
                "msg": "\n".join([first, *lines]),
                "problems": problems,
            }
        return {**result, "nodes": chosen}
