"""An inventory is asked again when anything that decides it may have changed."""

import os
import shutil
from pathlib import Path

import pytest
from yard_command import DATA

from yard.core.project import Project
from yard.plays.inventory_cache import recall, remember

DOCUMENT = {"trainers": {"hosts": ["alpha"]}}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A checkout that has been set up, whose inventory has been asked."""
    for name in [name for name in os.environ if name.startswith("ANSIBLE_")]:
        monkeypatch.delenv(name)
    root = tmp_path / "checkout"
    shutil.copytree(DATA / "checkout", root, symlinks=True)
    project = Project(root)
    project.state(root / "inventory/lab").mkdir(parents=True)
    remember(project, root / "inventory/lab", DOCUMENT)
    return project


def test_what_has_not_changed_is_known(project: Project) -> None:
    assert recall(project, project.root / "inventory/lab") == DOCUMENT


@pytest.mark.parametrize("name", ["inventory/lab/hosts.yml", "group_vars/all.yml", "ansible.cfg"])
def test_a_changed_file_is_noticed(project: Project, name: str) -> None:
    with (project.root / name).open("a") as file:
        file.write("# changed\n")
    assert recall(project, project.root / "inventory/lab") is None


def test_variables_beside_a_file_are_a_part_of_the_inventory(project: Project) -> None:
    inventory = project.root / "inventory/lab/hosts.yml"
    project.state(inventory).mkdir(parents=True, exist_ok=True)
    variables = inventory.parent / "group_vars/all.yml"
    variables.parent.mkdir()
    variables.write_text("a: 1\n")
    remember(project, inventory, DOCUMENT)
    assert recall(project, inventory) == DOCUMENT
    variables.write_text("a: 2\n")
    assert recall(project, inventory) is None
    variables.write_text("a: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n")
    remember(project, inventory, DOCUMENT)
    assert recall(project, inventory) is None


@pytest.mark.parametrize(
    ("name", "text", "mode"),
    [
        ("cloud.yml", "plugin: amazon.aws.aws_ec2\n", 0o644),
        ("secret.yml", "all: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n", 0o600),
        ("script", "#!/bin/sh\n", 0o755),
        ("hosts.py", "print('{}')\n", 0o644),
    ],
)
def test_what_is_not_plain_text_is_never_kept(
    project: Project, name: str, text: str, mode: int
) -> None:
    inventory = project.root / "inventory/lab"
    (inventory / name).write_text(text)
    (inventory / name).chmod(mode)
    remember(project, inventory, DOCUMENT)
    assert recall(project, inventory) is None


def test_an_environment_that_speaks_to_ansible_is_not_trusted(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSIBLE_INVENTORY_ENABLED", "script")
    assert recall(project, project.root / "inventory/lab") is None


def test_only_its_owner_reads_it(project: Project) -> None:
    """As the inventory, which may hold passwords and let nobody else read it."""
    file = project.state(project.root / "inventory/lab") / "inventory.json"
    assert file.stat().st_mode & 0o777 == 0o600
