"""What playbooks decide before they touch a machine."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.process

CHECKOUT = Path(__file__).parents[2]


def play(playbook: Path, inventory: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["ansible-playbook", "--inventory", str(inventory), str(playbook), *options],
        cwd=CHECKOUT,
        env={**os.environ, "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", ["remove", "rotate_keys"])
def test_nothing_is_done_well_where_there_is_no_machine(name: str, tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("trainers: {hosts: {}}\n")
    done = play(CHECKOUT / f"playbooks/{name}.yml", tmp_path, "-e", "remove_roles=all")
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert f"There is no machine in group trainers of {tmp_path}" in said
    assert "-i inventory/mysite" in said


@pytest.mark.parametrize(
    ("asked", "first", "has_roles"),
    [
        ("all", "trainer_image", True),
        ("all,dataset", "dataset", True),
        ("dataset", "dataset", False),
    ],
)
def test_which_roles_are_removed(asked: str, first: str, has_roles: bool, tmp_path: Path) -> None:
    """The variables of the playbook, in one that shows what follows from them."""
    folder = tmp_path / "playbooks"
    folder.mkdir()
    shutil.copy(CHECKOUT / "playbooks/nodes.yml", folder)
    (tmp_path / "roles").symlink_to(CHECKOUT / "roles")
    (*_, removal) = yaml.safe_load((CHECKOUT / "playbooks/remove.yml").read_text())
    shown: dict[str, Any] = {
        "name": "Show",
        "ansible.builtin.debug": {"msg": "{{ remove_wanted }}"},
    }
    one = {"hosts": "trainers", "gather_facts": False, "vars": removal["vars"], "tasks": [shown]}
    (folder / "show.yml").write_text(yaml.safe_dump([{"name": "Show what goes", **one}]))
    (tmp_path / "hosts.yml").write_text("trainers: {hosts: {gpu01: {}}}\n")
    done = play(folder / "show.yml", tmp_path / "hosts.yml", "-e", f"remove_roles={asked}")
    assert done.returncode == 0, done.stdout + done.stderr
    text = done.stdout.partition('"msg": ')[2].partition("]")[0] + "]"
    wanted = json.loads(text)
    assert wanted[0] == first
    assert len(wanted) == len(set(wanted))
    assert ({"openmpi", "accounts", "ssh_trust"} <= set(wanted)) == has_roles
    assert ("dataset" in wanted) == ("dataset" in asked)


def test_a_node_that_is_asked_for_another_one_spoils_nothing() -> None:
    """It may be off, or have lost its Python: that is a matter of its own row."""
    found = 0
    for file in CHECKOUT.glob("roles/*/tasks/*.yml"):
        for task in yaml.safe_load(file.read_text()) or []:
            if task.get("delegate_to") == "{{ item }}":
                found += 1
                assert task.get("ignore_unreachable"), file
                assert task.get("ignore_errors"), file
    assert found >= 2
