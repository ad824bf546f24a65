"""What roles, scenarios and playbooks use: each other, and files that they name."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from graph import Graph

# Paths of the checkout in texts of YAML and templates
PATH = re.compile(
    r"\b(?:collection|docker|inventory|playbooks|schemas|trainer|yard)(?:/[\w-]+)+(?:\.\w+)?"
)
SHARED = "molecule/shared"


class Loader(yaml.CSafeLoader):
    """Reads YAML with Ansible's own tags, which it takes for plain values."""


Loader.add_multi_constructor("!", lambda loader, suffix, node: None)


def thing_of(root: Path, path: str) -> str:
    """The thing that a file belongs to: its role, its scenario, its image, or the file itself."""
    parts = Path(path).parts
    if len(parts) > 2 and parts[0] in ("roles", "docker"):
        return "/".join(parts[:2])
    if len(parts) > 2 and parts[0] == "molecule":
        return "/".join(parts[:2])
    return path


def roles_in(node: Any, roles: set[str]) -> Iterator[str]:
    """The roles that a document of YAML applies, includes or depends on."""
    if isinstance(node, list):
        for item in node:
            yield from roles_in(item, roles)
        return
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if str(key).split(".")[-1] in ("include_role", "import_role") and isinstance(value, dict):
            name = str(value.get("name"))
            # The names of a loop stand somewhere in the task.
            yield from (
                [name] if name in roles else (text for text in texts_in(node) if text in roles)
            )
        elif key in ("roles", "dependencies") and isinstance(value, list):
            yield from (text for text in texts_in(value) if text in roles)
        else:
            yield from roles_in(value, roles)


def texts_in(node: Any) -> Iterator[str]:
    """All texts of a document."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        for value in node.values():
            yield from texts_in(value)
    elif isinstance(node, list):
        for item in node:
            yield from texts_in(item)


def add_ansible(graph: Graph, root: Path) -> None:
    """Add what roles, scenarios and playbooks use."""
    roles = {path.name for path in (root / "roles").iterdir() if path.is_dir()}
    folders = sorted({*root.glob("roles/*"), *root.glob("molecule/*")})
    files = [file for folder in folders if folder.is_dir() for file in sorted(folder.rglob("*"))]
    for link in (file for file in files if file.is_symlink() and file.is_dir()):
        user = thing_of(root, str(link.relative_to(root)))
        for used in sorted(link.resolve().rglob("*.py")):
            graph.add(user, str(used.relative_to(root.resolve())))
    for file in [*files, *root.glob("playbooks/*.yml"), root / "site.yml"]:
        if not file.is_file() or file.suffix not in (".yml", ".yaml", ".j2"):
            continue
        user = thing_of(root, str(file.relative_to(root)))
        text = file.read_text()
        for path in PATH.findall(text):
            if (root / path).exists():
                graph.add(user, thing_of(root, path) if (root / path).is_file() else path)
        if file.suffix == ".j2":
            continue
        document = yaml.load(text, Loader)
        for role in roles_in(document, roles):
            graph.add(user, f"roles/{role}")
        for play in document if isinstance(document, list) else []:
            for key, value in play.items() if isinstance(play, dict) else []:
                if key.endswith("import_playbook"):
                    used = (file.parent / str(value)).resolve()
                    if used.is_file():
                        graph.add(user, str(used.relative_to(root)))
    for scenario in root.glob("molecule/*/molecule.yml"):
        name = scenario.parent.name
        graph.add(f"molecule/{name}", SHARED)
        graph.add(SHARED, "molecule/run.py")
        if name in roles:
            graph.add(f"molecule/{name}", f"roles/{name}")


def modules_of_roles(root: Path) -> dict[str, str]:
    """The roles that modules, actions and module_utils are of, by their names."""
    return {
        file.stem: f"roles/{file.relative_to(root).parts[1]}"
        for file in root.glob("roles/*/*/*.py")
    }
