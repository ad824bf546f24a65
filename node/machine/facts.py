# Copyright Trainyard. Apache-2.0
"""What a node can tell about a run that failed on it."""

from __future__ import annotations

import os

# Below this a disk counts as full: less than any checkpoint needs. The trainer is told it in the
# environment of its container, as TRAINYARD_FULL_BYTES.
FULL_BYTES = 1_000_000


def oom_kills() -> int:
    """Return how many processes the kernel has killed for want of memory since it started.

    proc(5), /proc/vmstat: counts kills of the machine and of any control group (Linux 4.13).
    """
    with open("/proc/vmstat", encoding="ascii") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)


def free_bytes(directory: str) -> int:
    """Return what an ordinary user can still write below a directory."""
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize
