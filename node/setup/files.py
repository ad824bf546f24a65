"""Files and packages of a machine, compared with what a role would make of them."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .packages_records import unsettled


class Traces(NamedTuple):
    """What a role leaves on a machine. Where it has nothing to do there is none of it.

    Attributes:
        paths: patterns of paths, absolute.
        lines: by such a pattern, how a line of these files begins that the role wrote.
    """

    paths: list[str]
    lines: Mapping[str, str] = {}


class Ready(NamedTuple):
    """What makes a node ready for runs or checks.

    Attributes:
        owner: the role in whose record the packages stand.
        directories: those of root's, with their mode in octal digits.
    """

    owner: str
    packages: list[str]
    directories: dict[str, str]


def is_roots(path: Path, mode: str) -> bool:
    """Whether a file or directory is there, is root's and has this mode, in octal digits."""
    try:
        found = path.stat()
    except OSError:
        return False
    return (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (0, 0, int(mode, 8))


def look_for_traces(traces: Traces) -> dict[str, Any]:
    """Tell whether any of it is there."""
    found = [path for pattern in traces.paths for path in _matching(pattern)]
    found += [
        path
        for pattern, begin in traces.lines.items()
        for path in _matching(pattern)
        if path.is_file() and f"\n{begin}" in f"\n{path.read_text(errors='replace')}"
    ]
    return {"differs": bool(found), "found": sorted(map(str, set(found)))}


def _matching(pattern: str) -> list[Path]:
    return list(Path("/").glob(pattern.lstrip("/")))


def look_whether_ready(ready: Ready) -> dict[str, Any]:
    """Return the packages and directories that are not as they are to be."""
    try:
        packages = unsettled(ready.owner, ready.packages)
    except RuntimeError:
        packages = ready.packages  # the action that installs them says what is wrong
    directories = [
        path
        for path, mode in ready.directories.items()
        if not (Path(path).is_dir() and is_roots(Path(path), mode))
    ]
    return {
        "differs": bool(packages or directories),
        "packages": packages,
        "directories": directories,
    }
