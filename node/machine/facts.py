"""What a node can tell about a run that failed on it."""

from __future__ import annotations

import os

# Below this a disk counts as full: less than any checkpoint needs. The trainer is told it in the
# environment of its container, as TRAINYARD_FULL_BYTES.
FULL_BYTES = 1_000_000


def free_bytes(directory: str) -> int:
    """Return what an ordinary user can still write below a directory."""
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize


def lacks_inodes(directory: str) -> bool:
    """Return whether the disk of a directory takes no more files."""
    disk = os.statvfs(directory)
    # Some file systems have no limit of inodes and count none.
    return disk.f_files > 0 and disk.f_favail == 0
