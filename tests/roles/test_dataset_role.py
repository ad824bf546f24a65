"""Role dataset as a playbook runs it, on nodes that are folders of this machine."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from role_files import ROLES

NODES = ("node1", "node2")

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="the role gives files to root"),
    pytest.mark.process,
]


@dataclass
class Playbook:
    """playbooks/data.yml without the look at the inventory, for a user's own data."""

    folder: Path
    source: Path

    def __call__(self, *arguments: str) -> Mapping[str, Any]:
        """Run it; returns the recap by host, and under `said` what failed tasks said."""
        plays = (ROLES.parent / "playbooks/data.yml").read_text()
        begin = plays.index("- name: Prepare the data set")
        (self.folder / "data.yml").write_text(f"---\n{plays[begin:]}")
        host = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}
        nodes = {name: {**host, "dataset_directory": str(self.folder / name)} for name in NODES}
        inventory = {
            "trainers": {"hosts": nodes},
            "all": {
                "vars": {
                    "dataset_cache": str(self.folder / "cache"),
                    "training_node_program": str(self.folder / "program"),
                }
            },
        }
        (self.folder / "hosts.json").write_text(json.dumps(inventory))
        asked = {"dataset_name": "faces", "dataset_source": str(self.source)}
        done = subprocess.run(
            [
                *("ansible-playbook", "--inventory", "hosts.json", "data.yml", *arguments),
                *("--extra-vars", json.dumps(asked)),
            ],
            cwd=self.folder,
            env={
                **os.environ,
                "HOME": str(self.folder),
                "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
                "ANSIBLE_ROLES_PATH": str(ROLES),
                "ANSIBLE_PIPELINING": "true",
                "ANSIBLE_CONFIG": str(ROLES.parent / "ansible.cfg"),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.stdout.lstrip().startswith("{"), done.stdout + done.stderr
        document = json.loads(done.stdout)
        said = [
            str(result.get("msg"))
            for play in document["plays"]
            for task in play["tasks"]
            for result in task["hosts"].values()
            if result.get("failed")
        ]
        return {**document["stats"], "said": "\n".join(said)}

    def data(self, node: str) -> dict[str, str]:
        """What a node has."""
        place = self.folder / node / "faces"
        return {
            str(path.relative_to(place)): path.read_text()
            for path in sorted(place.rglob("*"))
            if path.is_file()
        }


FILES = {"a/one.txt": "1", "a/two.txt": "2" * 100_000, "odd name": ""}


@pytest.fixture
def playbook(tmp_path: Path) -> Playbook:
    source = tmp_path / "source"
    for name, text in FILES.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    return Playbook(tmp_path, source)


def test_puts_mends_and_otherwise_changes_nothing(playbook: Playbook) -> None:
    dry = playbook("--check")
    assert dry["said"] == ""
    assert not any((playbook.folder / node).exists() for node in NODES)
    first = playbook()
    assert first["said"] == ""
    for node in NODES:
        assert playbook.data(node) == FILES
        assert first[node]["changed"] > 0
    damaged = playbook.folder / "node2/faces/a/two.txt"
    about = damaged.stat()
    damaged.write_text("2" * 99_999 + "3")
    os.utime(damaged, ns=(about.st_atime_ns, about.st_mtime_ns))
    second = playbook()
    assert [second[node]["changed"] > 0 for node in NODES] == [False, True]
    assert playbook.data("node2") == FILES


def test_nothing_is_sent_while_one_node_has_no_room(playbook: Playbook) -> None:
    place = playbook.folder / "node2"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        done = playbook()
        assert "node2 has 6" in done["said"]
        assert "kB free, and 100 kB of 100 kB are to come" in done["said"]
        assert playbook.data("node1") == playbook.data("node2") == {}
        assert not (playbook.folder / "node1/faces").exists()
    finally:
        subprocess.run(["umount", str(place)], check=True)
