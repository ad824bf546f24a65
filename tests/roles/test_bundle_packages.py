"""What a bundle has is what the roles ask for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from role_files import ROLES

from yard.plays.contract import RELEASES

# Roles whose packages are no part of it: a driver is for one kernel, and not all are Debian's.
NOT_IN_IT = {"nvidia_container_toolkit", "nvidia_driver"}


def load(file: Path) -> Any:
    """Read a file as Ansible does: its strings may be templates."""
    if not file.exists():
        return {}
    return DataLoader().load_from_file(str(file), trusted_as_template=True)


def templar(role: str, release: str) -> Templar:
    """Ansible's own templates, with a role's variables, on a Debian release."""
    variables: dict[str, Any] = {}
    for folder in ("defaults", "vars"):
        variables |= load(ROLES / role / folder / "main.yml") or {}
    variables["ansible_facts"] = {
        "apparmor": {"status": "enabled"},
        "distribution": "Debian",
        "distribution_major_version": {"bookworm": "12", "trixie": "13"}[release],
        "distribution_release": release,
    }
    variables["login_shell_users"] = [
        {"name": shell, "shell": shell} for shell in variables.get("login_shell_paths", {})
    ]
    return Templar(loader=DataLoader(), variables=variables)


def tasks_in(tasks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The tasks of a file, with those in blocks."""
    for task in tasks:
        yield task
        yield from tasks_in(task.get("block", []) + task.get("rescue", []))


def asked(release: str) -> dict[str, set[str]]:
    """The packages that each role's tasks install."""
    packages: dict[str, set[str]] = {}
    for file in sorted(ROLES.glob("*/tasks/*.yml")):
        role = file.parts[-3]
        for task in tasks_in(load(file) or []):
            names = task.get("packages", {}).get("names")
            if names is not None and role not in NOT_IN_IT:
                packages.setdefault(role, set()).update(templar(role, release).template(names))
    return packages


@pytest.mark.parametrize("release", ["bookworm", "trixie"])
def test_it_has_the_packages_that_the_roles_install(release: str) -> None:
    variables = load(ROLES / "bundle/vars/main.yml")
    has = {
        *variables["bundle_node_packages"],
        *variables["bundle_first_packages"],
        *variables["bundle_packages_of"].get(release, []),
    }
    wanted = asked(release)
    assert {"accounts", "docker_engine", "login_shell", "openmpi", "training_node"} <= set(wanted)
    assert {role: names - has for role, names in wanted.items() if names - has} == {}
    # And none that no role asks for.
    assert set(variables["bundle_node_packages"]) <= set().union(*wanted.values())


def test_its_releases_are_those_of_the_command_and_of_the_base_images() -> None:
    for role, option in (("bundle", "bundle_releases"), ("base_image", "base_image_release")):
        specification = load(ROLES / role / "meta/argument_specs.yml")["argument_specs"]["main"]
        assert tuple(specification["options"][option]["choices"]) == RELEASES
    assert tuple(load(ROLES / "bundle/vars/main.yml")["bundle_python"]) == RELEASES
