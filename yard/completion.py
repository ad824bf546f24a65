"""What a shell offers after TAB for the names that a checkout has; argcomplete does the rest."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from yard.core.project import Project


def models(**_: Any) -> list[str]:
    """What `--model` can name."""
    return sorted(_setting("models", "training_parameters"))


def datasets(**_: Any) -> list[str]:
    """What `--dataset` can name, of the data sets that the checkout knows."""
    return sorted(_setting("datasets", "training_datasets"))


def recipes(**_: Any) -> list[str]:
    """What `--recipe` can name."""
    return sorted(path.stem for path in (_project().root / "trainer/recipes").glob("*.yml"))


def runs(**_: Any) -> list[str]:
    """The runs, the newest first."""
    from yard.runs.folder import list_runs

    return ["latest", *sorted((run.name for run in list_runs(_project().runs)), reverse=True)]


def hosts(parsed_args: Any = None, **_: Any) -> list[str]:
    """Hosts that the files of the inventory name; ones that a plugin finds are not asked for."""
    inventory = _project().inventory(getattr(parsed_args, "inventory", None))
    files = [*inventory.glob("*.yml"), *inventory.glob("*.yaml")]
    return sorted({host for file in files or [inventory] for host in _hosts_in(_read(file))})


def several(names: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """The same for an option that takes several of them, with commas between."""

    def offer(prefix: str = "", **known: Any) -> list[str]:
        given = prefix.rpartition(",")[0].split(",") if "," in prefix else []
        return [",".join([*given, name]) for name in names(**known) if name not in given]

    return offer


def _project() -> Project:
    return Project.find(Path.cwd())


def _setting(file: str, name: str) -> dict[str, Any]:
    settings: dict[str, Any] = _read(_project().root / f"group_vars/all/{file}.yml")[name]
    return settings


def _read(file: Path) -> Any:
    return yaml.load(file.read_text(), yaml.CSafeLoader)


def _hosts_in(groups: object) -> Iterator[str]:
    if isinstance(groups, dict):
        for name, value in groups.items():
            if name == "hosts" and isinstance(value, dict):
                yield from value
            elif name != "vars":
                yield from _hosts_in(value)


def is_asked() -> bool:
    """Whether this process was started by a shell that completes a command."""
    return "_ARGCOMPLETE" in os.environ
