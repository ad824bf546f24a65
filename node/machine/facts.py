# Copyright Trainyard. Apache-2.0
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
