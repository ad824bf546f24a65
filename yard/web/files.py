"""Files of runs, which are never trusted: ranks wrote many of them."""

import os
import stat
from pathlib import Path

from yard.core.errors import RequestError
from yard.runs.folder import RUN_ID
from yard.runs.output import drawn

# Ends of names of files that a browser shows as text; others it saves.
TEXT = frozenset(
    {".txt", ".log", ".json", ".jsonl", ".yml", ".yaml", ".toml", ".py", ".sh", ".md", ".csv"}
)
# Bytes of a log that are shown: its end.
TAIL = 64_000


def run_of(runs: Path, name: str) -> Path:
    """The directory of a run by its whole id.

    Raises:
        RequestError: there is none.
    """
    run = runs / name
    try:
        known = RUN_ID.fullmatch(name) and not run.is_symlink()
        known = known and (run / "manifest.json").is_file()
    except OSError:  # the name is too long for one
        known = False
    if not known:
        raise RequestError(f"run {name!r}: unknown")
    return run


def file_of(run: Path, name: str) -> Path:
    """The real path of a file of a run; links lead no further than its directory.

    Raises:
        RequestError: there is no such file, or it is a folder, a device or a pipe.
    """
    try:
        path = (run / name).resolve(strict=True)
        inside = path.is_relative_to(run.resolve()) and stat.S_ISREG(path.lstat().st_mode)
    except (OSError, RuntimeError, ValueError):
        inside = False
    if not inside:
        raise RequestError(f"{run.name} has no file {name!r}")
    return path


def tail_of(path: Path) -> str:
    """The end of a log, as a terminal shows it."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - TAIL))
        return drawn(file.read().decode(errors="replace"))
