"""Role dataset where one of several nodes lacks room: nothing is sent to the others either.

What it puts, mends and leaves alone is shown on machines, by molecule/dataset.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
from lasting_python import LASTING_PYTHON
from role_files import ROLES

NODES = ("node1", "node2")


@pytest.mark.skipif(os.geteuid() != 0, reason="the role gives files to root")
@pytest.mark.process
def test_nothing_is_sent_while_one_node_has_no_room(tmp_path: Path) -> None:
    source, full = tmp_path / "source", tmp_path / "node2"
    for folder in (source, full):
        folder.mkdir()
    (source / "one.txt").write_text("2" * 100_000)
    plays = (ROLES.parent / "playbooks/data.yml").read_text()
    # Without the look at the inventory
    begin = plays.index("- name: Prepare the data set")
    (tmp_path / "data.yml").write_text(f"---\n{plays[begin:]}")
    host = {"ansible_connection": "local", "ansible_become": False}
    nodes = {name: {**host, "dataset_directory": str(tmp_path / name)} for name in NODES}
    (tmp_path / "hosts.json").write_text(json.dumps({"trainers": {"hosts": nodes}}))
    asked = {
        **{"dataset_name": "faces", "dataset_source": str(source)},
        "dataset_cache": str(tmp_path / "cache"),
        "training_node_program": str(tmp_path / "program"),
    }
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(full)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        done = subprocess.run(
            [
                *("ansible-playbook", "--inventory", "hosts.json", "data.yml"),
                *("--extra-vars", json.dumps(asked)),
            ],
            cwd=tmp_path,
            env={
                **os.environ,
                "HOME": str(tmp_path),
                "ANSIBLE_ROLES_PATH": str(ROLES),
                "ANSIBLE_CONFIG": str(ROLES.parent / "ansible.cfg"),
                **LASTING_PYTHON,
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 2, done.stdout
        said = " ".join(done.stdout.split())
        assert "node2 has 6" in said
        assert "kB free, and 100 kB of 100 kB are to come" in said
        assert not any((tmp_path / node / "faces").exists() for node in NODES)
        assert not [*tmp_path.glob("node*/**/one.txt")]
    finally:
        subprocess.run(["umount", str(full)], check=True)
