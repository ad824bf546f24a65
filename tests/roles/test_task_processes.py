"""The processes of tasks have filters and tests, and look for garbage rarely and not there."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from role_files import ROLES

pytestmark = pytest.mark.process

PLUGINS = ROLES.parent / "playbooks/callback_plugins"
# Objects that were there before are in none of the generations that Python looks at.
ACTION = """import gc
import sys

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        known = {id(entry) for entry in gc.get_objects()}
        loaded = [
            name.rsplit("_", 1)[0] for name, module in sys.modules.items()
            if name.startswith("ansible.plugins.") and id(module.__dict__) not in known
        ]
        frozen, threshold = gc.get_freeze_count(), gc.get_threshold()[0]
        return {"before": loaded, "frozen": frozen, "threshold": threshold}
"""


def test_tasks_inherit_what_is_set(tmp_path: Path) -> None:
    actions = tmp_path / "action_plugins"
    actions.mkdir()
    (actions / "look.py").write_text(ACTION)
    playbook = tmp_path / "play.yml"
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [{"look": {}}]}
    playbook.write_text(json.dumps([play]))
    environment = {
        **os.environ,
        "ANSIBLE_CALLBACK_PLUGINS": str(PLUGINS),
        "ANSIBLE_LOCAL_TEMP": str(tmp_path),
        "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
    }
    done = subprocess.run(
        ["ansible-playbook", "--inventory", "localhost,", "--connection", "local", playbook],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    (task,) = json.loads(done.stdout)["plays"][0]["tasks"]
    found = task["hosts"]["localhost"]
    assert {"ansible.plugins.filter.core", "ansible.plugins.test.core"} <= set(found["before"])
    assert found["frozen"] > 50_000
    assert found["threshold"] == 10_000
