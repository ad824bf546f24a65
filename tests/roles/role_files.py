"""Where the roles are, and their actions as modules."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

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
