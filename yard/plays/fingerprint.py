"""Has anything that set-up reads changed since it last ran?"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from yard.core.project import Project

# What decides the state of the nodes: the plays, their variables, and what images are built from.
# The trainer is none of it: it travels with each run.
SOURCES = (
    "site.yml",
    "ansible.cfg",
    "requirements.txt",
    "playbooks",
    "roles",
    "node",
    "group_vars",
    "docker",
)
# What a site may add to them.
ADDED = ("host_vars",)
# Those of them that the trainer image is built from, and nothing else reads. Role trainer_image
# names the image after the same ones.
IMAGE_SOURCES = ("docker/trainer/",)
# Those that no node's state comes from: packages of notebooks come with the first notebook.
UNREAD = ("docker/notebook/",)
# What names of an inventory's files begin with, beside those of the checkout's.
INVENTORY_PREFIX = "inventory:"
# Of the environment: what keeps ranks apart from the rest of a node, for one command.
RUNTIME = "TRAINYARD_RUNTIME"
# Folders that Ansible reads beside an inventory.
VARIABLES = ("group_vars", "host_vars")
# Written by tools beside the sources, and read by no play.
IGNORED = frozenset({"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".ansible"})


def fingerprint_sources(project: Project) -> dict[str, str]:
    """SHA-256 of every file below `SOURCES`, by path relative to the checkout."""
    return {
        name: _sha256(path)
        for source in (*SOURCES, *ADDED)
        for path in _files(project.root / source)
        if not (name := str(path.relative_to(project.root))).startswith(UNREAD)
    }


def fingerprint_inventory(inventory: Path) -> dict[str, str]:
    """SHA-256 of every file of an inventory, and what the environment says in its place.

    Apart from the sources, because set-up itself writes the local cluster's nodes into its
    inventory: this half counts as it is after set-up, the other as it was before.
    """
    parent = inventory.parent
    runtime = os.environ.get(RUNTIME)
    said = {f"{INVENTORY_PREFIX}{RUNTIME}": runtime} if runtime else {}
    return said | {
        f"{INVENTORY_PREFIX}{path.relative_to(parent)}": _sha256(path)
        for path in inventory_files(inventory)
    }


def inventory_files(inventory: Path) -> Iterator[Path]:
    """Yield the files of an inventory: of a folder all, of a file also the variables beside it."""
    yield from _files(inventory)
    if inventory.is_file():
        for folder in VARIABLES:
            yield from _files(inventory.parent / folder)


def changed_files(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Names of files that were added, removed or changed, sorted."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def concerns_image_alone(changed: Sequence[str]) -> bool:
    """Whether files have changed, and only such as the trainer image is built from."""
    return bool(changed) and all(name.startswith(IMAGE_SOURCES) for name in changed)


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir() and not path.is_symlink() and path.name not in IGNORED:
        for child in sorted(path.iterdir()):
            yield from _files(child)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
