"""What the callbacks beside the playbooks do for tasks: their processes, and their environment."""

import json
import os
import subprocess
from typing import Any

import pytest
from role_files import ROLES

pytestmark = pytest.mark.process

PLUGINS = ROLES.parent / "playbooks/callback_plugins"
OWN = "unix:///var/run/docker.sock"
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


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any], str]:
    """What two tasks of a playbook alone answer, and what it says, with another engine around."""
    folder = tmp_path_factory.mktemp("play")
    (folder / "action_plugins").mkdir()
    (folder / "action_plugins/look.py").write_text(ACTION)
    tasks = [{"look": {}}, {"ansible.builtin.command": {"argv": ["env"]}}]
    play = {"hosts": "localhost", "gather_facts": False, "tasks": tasks}
    playbook = folder / "play.yml"
    playbook.write_text(json.dumps([play]))
    environment = {
        **os.environ,
        "ANSIBLE_CALLBACK_PLUGINS": str(PLUGINS),
        "ANSIBLE_LOCAL_TEMP": str(folder),
        "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
        "DOCKER_HOST": "tcp://build.example.org:2376",
        "DOCKER_CONTEXT": "build",
        "DOCKER_TLS_VERIFY": "1",
        "DOCKER_CONFIG": "/home/ops/.docker",
    }
    done = subprocess.run(
        ["ansible-playbook", "--inventory", "localhost,", "--connection", "local", playbook],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    looked, ran = (
        task["hosts"]["localhost"] for task in json.loads(done.stdout)["plays"][0]["tasks"]
    )
    return looked, ran, " ".join(done.stderr.split())


def test_tasks_inherit_what_is_set(told: tuple[dict[str, Any], dict[str, Any], str]) -> None:
    """Their processes have filters and tests, and look for garbage rarely and not there."""
    found, _, _ = told
    assert {"ansible.plugins.filter.core", "ansible.plugins.test.core"} <= set(found["before"])
    assert found["frozen"] > 50_000
    assert found["threshold"] == 10_000


def test_tasks_ask_the_own_engine_and_it_is_said(
    told: tuple[dict[str, Any], dict[str, Any], str],
) -> None:
    _, ran, said = told
    settings = {line for line in ran["stdout"].splitlines() if line.startswith("DOCKER_")}
    assert settings == {f"DOCKER_HOST={OWN}", "DOCKER_CONFIG=/home/ops/.docker"}
    assert (
        f"DOCKER_HOST=tcp://build.example.org:2376 is ignored: tasks use the engine at {OWN}"
        in said
    )
