"""Where the roles are, their variables, and their actions as modules."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

ROLES = Path(__file__).parents[2] / "roles"


def action_plugin(role: str, name: str) -> ModuleType:
    """Import a role's action as Ansible does on the control node, from its file."""
    return import_file(ROLES / role / "action_plugins" / f"{name}.py", f"{role}_{name}")


def import_file(path: Path, name: str = "") -> ModuleType:
    """Import a file that is no module of a package."""
    specification = importlib.util.spec_from_file_location(name or path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module  # dataclasses look their module up there
    specification.loader.exec_module(module)
    return module


def of_the_site(role: str, **further: Any) -> Templar:
    """Ansible's templates with what the site-wide files and a role set."""
    loader = DataLoader()
    variables: dict[str, Any] = {}
    site = sorted((ROLES.parent / "group_vars/all").glob("*.yml"))
    for file in (ROLES / role / "defaults/main.yml", ROLES / role / "vars/main.yml", *site):
        variables |= loader.load_from_file(str(file), trusted_as_template=True)
    return Templar(loader=loader, variables=variables | further)
