# Copyright Trainyard. Apache-2.0
"""The YAML files of an inventory and of the roles: which variables they set, and on which line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

SUFFIXES = frozenset({"", ".yml", ".yaml", ".json"})
VARIABLE_DIRECTORIES = ("group_vars", "host_vars")


class Definition(NamedTuple):
    """A variable that a file sets.

    Attributes:
        name: of the variable.
        file: where it is set.
        line: from 1.
        value: as written, templates and all; the empty string where it is a list or a mapping.
    """

    name: str
    file: Path
    line: int
    value: str


def inventory_definitions(sources: list[str]) -> Iterator[Definition]:
    """Yield what an inventory sets, in its own files and in group_vars and host_vars beside them.

    Other forms than YAML (INI, scripts, plugins, files encrypted as a whole) are passed over.

    Args:
        sources: files and directories, as given with --inventory.
    """
    for source in map(Path, sources):
        if source.is_dir():
            for file in _files(source, below=False):
                yield from _of_inventory(file)
            yield from directory_definitions(source)
        elif source.is_file():
            yield from _of_inventory(source)
            yield from directory_definitions(source.parent)


def directory_definitions(directory: Path) -> Iterator[Definition]:
    """Yield what the group_vars and host_vars of a directory set."""
    for name in VARIABLE_DIRECTORIES:
        for file in _files(directory / name, below=True):
            yield from _of_mapping(file, _compose(file))


def group_files(sources: list[str]) -> Iterator[tuple[str, Path]]:
    """Yield the names that an inventory's group_vars bear, and the file or directory of each.

    Args:
        sources: files and directories, as given with --inventory.
    """
    directories = {path if path.is_dir() else path.parent for path in map(Path, sources)}
    for directory in sorted(directories):
        for file in sorted((directory / "group_vars").glob("*")):
            if not file.name.startswith(".") and (file.is_dir() or file.suffix in SUFFIXES):
                yield file.name if file.is_dir() else file.stem, file.resolve()


def declared_variables(roles: Path) -> dict[str, set[str]]:
    """Return the variables that each role declares in its argument_specs.yml, by role."""
    declared = {}
    for file in sorted(roles.glob("*/meta/argument_specs.yml")):
        entry_points = yaml.safe_load(file.read_text())["argument_specs"].values()
        declared[file.parts[-3]] = {
            name for entry_point in entry_points for name in entry_point.get("options") or {}
        }
    return declared


def groups_of_plays(playbook: Path) -> dict[str, Path]:
    """Return the hosts and groups that plays name literally, with the first playbook that does.

    Follows import_playbook. `all`, `localhost`, templates and wildcards name no group.
    """
    named: dict[str, Path] = {}
    for play in yaml.safe_load(playbook.read_text()) or []:
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


def _files(directory: Path, below: bool) -> Iterator[Path]:
    """Yield the YAML files of a directory; with `below`, of the directories in it too."""
    for folder, folders, names in os.walk(directory, followlinks=True):
        folders.sort()
        if not below:
            folders.clear()
        for name in sorted(names):
            if Path(name).suffix in SUFFIXES and not name.startswith("."):
                yield Path(folder, name).resolve()


def _compose(file: Path) -> yaml.Node | None:
    """Parse a file into nodes, which know their lines; None where it is not YAML."""
    try:
        text = file.read_text()
        # Of a file that is encrypted as a whole, Ansible alone knows the names.
        return None if text.startswith("$ANSIBLE_VAULT") else yaml.compose(text)
    except (UnicodeDecodeError, yaml.YAMLError):
        return None


def _entries(node: yaml.Node | None) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    """Yield keys and values of a mapping; nothing of another node."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield key, value


def _of_mapping(file: Path, node: yaml.Node | None) -> Iterator[Definition]:
    for key, value in _entries(node):
        written = value.value if isinstance(value, yaml.ScalarNode) else ""
        yield Definition(key.value, file, key.start_mark.line + 1, written)


def _of_inventory(file: Path) -> Iterator[Definition]:
    for _, group in _entries(_compose(file)):
        yield from _of_group(file, group)


def _of_group(file: Path, group: yaml.Node) -> Iterator[Definition]:
    for key, content in _entries(group):
        if key.value == "vars":
            yield from _of_mapping(file, content)
        elif key.value == "hosts":
            for _, host in _entries(content):
                yield from _of_mapping(file, host)
        elif key.value == "children":
            for _, child in _entries(content):
                yield from _of_group(file, child)
