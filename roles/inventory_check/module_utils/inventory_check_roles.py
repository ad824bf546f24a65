"""What a checkout's roles and playbooks expect of an inventory: variables and groups."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.module_utils.inventory_check_files import LOADER

# The variables of each role, by role and name, with what argument_specs.yml says of each.
Declared = Mapping[str, Mapping[str, Mapping[str, Any]]]


@functools.cache
def declared_variables(roles: Path) -> Declared:
    """Return the variables that each role declares in its argument_specs.yml."""
    declared = {}
    for file in sorted(roles.glob("*/meta/argument_specs.yml")):
        entry_points = _load(file)["argument_specs"].values()
        declared[file.parts[-3]] = {
            name: option
            for entry_point in entry_points
            for name, option in (entry_point.get("options") or {}).items()
        }
    return declared


def role_of(name: str, declared: Declared) -> str:
    """Return the role whose prefix a variable has, or the empty string."""
    return max((role for role in declared if name.startswith(f"{role}_")), key=len, default="")


def groups_of_plays(playbook: Path) -> dict[str, Path]:
    """Return the hosts and groups that plays name literally, with the first playbook that does.

    Follows import_playbook. `all`, `localhost`, templates and wildcards name no group.
    """
    named: dict[str, Path] = {}
    for play in _load(playbook) or []:
        imported = play.get("ansible.builtin.import_playbook")
        if imported:
            for name, where in groups_of_plays(playbook.parent / imported).items():
                named.setdefault(name, where)
        hosts = play.get("hosts", [])
        patterns = hosts if isinstance(hosts, list) else hosts.replace(",", ":").split(":")
        for pattern in patterns:
            name = pattern.strip().lstrip("!&")
            if name.isidentifier() and name not in ("all", "localhost"):
                named.setdefault(name, playbook)
    return named


def _load(file: Path) -> Any:
    return yaml.load(file.read_text(), LOADER)
