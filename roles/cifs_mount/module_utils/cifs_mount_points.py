# Copyright Trainyard. Apache-2.0
"""Directories that shares are mounted on; those that were made here go again with the share."""

from __future__ import annotations

from pathlib import Path

# The directories that were made here, a line each.
RECORD = Path("/var/lib/trainyard/cifs_mount")


def make_mount_point(path: str, record: Path = RECORD) -> None:
    """Make a mount point, and record each directory that was missing on the way to it."""
    point = Path(path)
    missing = [parent for parent in [*reversed(point.parents), point] if not parent.exists()]
    if not missing:
        return
    record.parent.mkdir(parents=True, exist_ok=True)
    with record.open("a") as file:
        file.writelines(f"{directory}\n" for directory in missing)
    point.mkdir(parents=True)


def remove_mount_point(path: str, record: Path = RECORD) -> None:
    """Remove a mount point that was made here, and what was made above it, once empty."""
    recorded = record.read_text().splitlines() if record.exists() else []
    for directory in [Path(path), *Path(path).parents]:
        if str(directory) in recorded:
            try:
                directory.rmdir()
            except OSError:  # something else is in it: it stays, and so does its record
                break
            recorded.remove(str(directory))
    if recorded:
        record.write_text("".join(f"{directory}\n" for directory in recorded))
        return
    record.unlink(missing_ok=True)
    if record.parent.is_dir() and not any(record.parent.iterdir()):
        record.parent.rmdir()
