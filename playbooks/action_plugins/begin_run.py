"""Action: begins the run of a launch by playbook alone, as `make train` begins one.

Runs on the control node and connects to none. What was typed with C(-e) is read as a request to
train: it is checked, and gets what it leaves open from the model and the inventory. The run has its
folder and its manifest then, and the launch its variables.
"""

import os
import sys
from pathlib import Path
from typing import Any

from ansible import context
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars

# The checkout, of which the package `yard` is a part.
ROOT = Path(__file__).parents[2]


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """Begins a run; returns its directory, and the launch's variables as facts."""

    _requires_connection = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the run, or what is wrong with the request."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        if self._task.check_mode:
            return {**result, "failed": True, "msg": "a launch has no dry run"}
        sys.path.append(str(ROOT))
        from yard.core.errors import RequestError
        from yard.operations.alone import begin

        # yard has Ansible read the inventory once more.
        for path in context.CLIARGS.get("vault_password_files") or ():
            os.environ.setdefault("ANSIBLE_VAULT_PASSWORD_FILE", path)
        typed = load_extra_vars(self._loader).items()
        asked = {name: value for name, value in typed if name.startswith("training_run_")}
        try:
            facts = begin(
                ROOT,
                list((task_vars or {})["ansible_inventory_sources"]),
                self._templar.template(asked),
            )
        except RequestError as error:
            return {**result, "failed": True, "msg": str(error)}
        return {
            **result,
            "changed": True,
            "directory": facts["training_run_collect_dir"],
            "ansible_facts": facts,
        }
