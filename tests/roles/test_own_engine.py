"""A playbook alone asks the engine of this machine, whatever the environment says."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from role_files import ROLES

pytestmark = pytest.mark.process

PLUGINS = ROLES.parent / "playbooks/callback_plugins"
OWN = "unix:///var/run/docker.sock"


def test_tasks_ask_the_own_engine_and_it_is_said(tmp_path: Path) -> None:
    playbook = tmp_path / "play.yml"
    task = {"ansible.builtin.command": {"argv": ["env"]}}
    playbook.write_text(
        json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [task]}])
    )
    environment = {
        **os.environ,
        "ANSIBLE_CALLBACK_PLUGINS": str(PLUGINS),
        "ANSIBLE_LOCAL_TEMP": str(tmp_path),
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
    (result,) = json.loads(done.stdout)["plays"][0]["tasks"]
    heard = result["hosts"]["localhost"]["stdout"].splitlines()
    settings = {line for line in heard if line.startswith("DOCKER_")}
    assert settings == {f"DOCKER_HOST={OWN}", "DOCKER_CONFIG=/home/ops/.docker"}
    said = " ".join(done.stderr.split())
    assert (
        f"DOCKER_HOST=tcp://build.example.org:2376 is ignored: tasks use the engine at {OWN}"
        in said
    )
