"""`trainyard.yml` in a project: what one would otherwise type each time."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from yard.core.errors import RequestError

NAME = "trainyard.yml"

# One process a rank, or one a node that starts the node's ranks itself, as torchrun does.
RANK, NODE = PER = ("rank", "node")


@dataclass(frozen=True)
class Settings:
    """What the file says; what is typed wins.

    Attributes:
        entry: what is run, as `ENTRY=` takes it.
        launch: `rank` or `node`.
        requirements: the file that says what it requires, or `none`.
        metrics: a pattern for lines of rank 0's output, whose named groups are metrics.
        resume_args: further ones of the program where it goes on from a checkpoint.
        grace: seconds from SIGTERM to SIGKILL.
        stall: seconds without a sign of life after which a run is ended; 0: never.
        checkpoints: a pattern for files of its working directory that are checkpoints.
        silence: seconds without a sign of life after which a run has a warning; 0: never.
    """

    entry: str | None = None
    args: tuple[str, ...] = ()
    launch: str | None = None
    data: str | None = None
    requirements: str | None = None
    metrics: str | None = None
    resume_args: tuple[str, ...] = ()
    grace: int | None = None
    stall: int | None = None
    checkpoints: str | None = None
    silence: int | None = None


def read_settings(folder: Path) -> Settings:
    """Read the file of a project; one that has none has no settings.

    Every plain value is taken as it is written, so that `1e-3` reaches the program as that.

    Raises:
        RequestError: with every mistake in it.
    """
    path = folder / NAME
    if not path.is_file():
        return Settings()
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader) or {}
    except (ValueError, yaml.YAMLError) as error:
        raise RequestError(f"{NAME}: {error}") from error
    known = [entry.name for entry in fields(Settings)]
    if not isinstance(document, dict):
        raise RequestError(f"{NAME}: must have keys, of {', '.join(known)}")
    problems = [
        f"{NAME}: {name}: unknown; there are {', '.join(known)}"
        for name in document
        if name not in known
    ]
    values = {}
    for name in known:
        if name in document:
            try:
                values[name] = _READ.get(name, _word)(document[name])
            except ValueError as error:
                problems.append(f"{NAME}: {name}: {error}")
    if problems:
        raise RequestError(*problems)
    return Settings(**values)


def split(text: str) -> tuple[str, ...]:
    """Split arguments as a shell does, which looks for no variables here.

    Raises:
        ValueError: a quotation mark is not closed.
    """
    return tuple(shlex.split(text))


def _word(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a word")
    return value


def _arguments(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return split(value)
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return tuple(value)
    raise ValueError("must be a list, or a line as one types it")


def _per(value: Any) -> str:
    if value not in PER:
        raise ValueError(f"must be {' or '.join(PER)}")
    return str(value)


def _pattern(value: Any) -> str:
    try:
        groups = re.compile(_word(value)).groupindex
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from error
    if not groups:
        raise ValueError("needs a named group for each metric, like (?P<loss>[0-9.]+)")
    return str(value)


def _files(value: Any) -> str:
    pattern = _word(value)
    names = pattern.split("/")
    if not pattern.isprintable() or {"", ".", "..", "**"} & set(names):
        raise ValueError(
            "must be a path in the working directory, with *, ? or [...] in its names and "
            "without ** and .., like checkpoint-*.pt"
        )
    return pattern


def _seconds(value: Any) -> int:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9]{1,9}", value):
        raise ValueError("must be a number of seconds")
    return int(value)


_READ: Mapping[str, Any] = {
    "args": _arguments,
    "resume_args": _arguments,
    "launch": _per,
    "metrics": _pattern,
    "checkpoints": _files,
    "grace": _seconds,
    "stall": _seconds,
    "silence": _seconds,
}
