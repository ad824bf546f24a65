"""Ansible action of the tests: what a test says that runs here, in the form of the real one."""

import json
import shlex
import time
from typing import Any

from ansible.plugins.action import ActionBase

LOAD = {
    **{"cpu_percent": 61.5, "cores": 8, "memory_used_bytes": 4 * 10**9, "memory_bytes": 16 * 10**9},
    **{"disk_free_bytes": 71 * 10**9, "disk_bytes": 270 * 10**9, "gpus": []},
}


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """Reads it where the node of a test is, so that one that is unplugged cannot be reached."""

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Tell it."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        root = shlex.quote(self._task.args["arguments"]["root"])
        said = json.loads(
            self._low_level_execute_command(f"cat {root}/status.json || echo '{{}}'")["stdout"]
        )
        if "failed" in said:
            return {**result, **said}
        answer = {"runs": [], "load": LOAD, "time": time.time(), "trouble": None, **said}
        return {**result, "changed": False, "verb": "status", "answer": answer}
