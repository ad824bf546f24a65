"""Role dataset: with which rights images are decoded here, and that nothing is sent without room.

tests/node/test_dataset_transfer.py shows that a node without room fails, and says so with figures;
molecule/dataset what the role puts, mends and leaves alone.
"""

import os
from pathlib import Path

import pytest
import yaml
from ansible_here import Host, tasks_of
from role_files import ROLES


@pytest.mark.process
def test_the_decoder_may_read_what_a_group_of_the_user_s_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "id").write_text('#!/bin/sh\n[ "$*" = -G ] && echo 1000 27 4321\n')
    (tmp_path / "id").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    decoder = tasks_of("dataset", "decode")[-1]["community.docker.docker_container"]
    assert Host("dataset", {}).template(decoder["groups"]) == ["1000", "27", "4321"]
    playbook = yaml.safe_load((ROLES.parent / "playbooks/trainer_here.yml").read_text())
    (here,) = (
        task["community.docker.docker_container"]
        for task in playbook[0]["tasks"]
        if "community.docker.docker_container" in task
    )
    assert here["groups"] == decoder["groups"]


def test_nothing_is_sent_while_one_node_has_no_room() -> None:
    tasks = tasks_of("dataset", "present")
    asked = [task.get("training_node", {}).get("verb") for task in tasks].index("stage_data")
    first_sent = min(
        number for number, task in enumerate(tasks) if "ansible.posix.synchronize" in task
    )
    assert asked < first_sent
    # Ansible goes to the next task on no host then.
    assert tasks[asked]["any_errors_fatal"] is True
    assert not tasks[asked].get("ignore_errors")
