# Copyright Trainyard. Apache-2.0
"""The lock of a node: which run has it. One file below the directory of all runs.

Every change happens under flock(2) on that directory, which the kernel gives back when a process
dies: of two launches at the same instant exactly one gets the node.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ansible.module_utils.training_node_docker import inspect

# A run that has no container yet keeps its node this long, in seconds: the time to start one.
GRACE = 120.0


@contextmanager
def guarded(root: str) -> Iterator[None]:
    """Keep every other process of this node from changing the lock below `root`."""
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def container_of(run_id: str) -> str:
    """Name of the container of a run on every of its nodes."""
    return f"trainyard-{run_id}"


def read(root: str) -> dict[str, Any] | None:
    """Return the lock, as training_run_take writes it, or None: nobody holds the node."""
    try:
        with open(os.path.join(root, ".lock"), encoding="utf-8") as file:
            lock: dict[str, Any] = json.load(file)
            return lock
    except (FileNotFoundError, ValueError):
        return None


def since_boot() -> float:
    """Seconds since this machine started: a clock that nobody sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def age(lock: dict[str, Any]) -> float:
    """Return how old a lock is, in seconds; for ever, where the machine has started since."""
    begun = float(lock.get("begun", -math.inf))
    return since_boot() - begun if begun <= since_boot() else math.inf


def is_live(lock: dict[str, Any]) -> bool:
    """Tell whether the run that holds a lock still needs the node.

    The container of a run ends when the run does, watched or not. So a lock is stale when its
    container has ended, or when there is none and there was time to start one.
    """
    container = inspect(container_of(lock["run"]))
    if container is None or container["State"]["Status"] == "created":
        return age(lock) < GRACE
    return bool(container["State"]["Running"])


def holder(root: str) -> dict[str, Any] | None:
    """Return the lock of a live run, or None: the node can be taken."""
    lock = read(root)
    return lock if lock is not None and is_live(lock) else None


def same(lock: dict[str, Any], other: dict[str, Any]) -> bool:
    """Tell whether two locks are of one run; two checkouts may give two runs the same id."""
    return (lock["run"], lock["home"]) == (other["run"], other["home"])


def write(root: str, lock: dict[str, Any]) -> None:
    """Put a lock there; only under `guarded`."""
    path = os.path.join(root, ".lock")
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(lock, file)
    os.replace(path + ".new", path)


def release(root: str, lock: dict[str, Any]) -> None:
    """Take a lock away if it is this run's."""
    with guarded(root):
        present = read(root)
        if present is not None and same(present, lock):
            os.remove(os.path.join(root, ".lock"))


def holder_values(lock: dict[str, Any]) -> dict[str, str]:
    """Who holds a node, as the values of a problem: run, owner and since when (UTC)."""
    since = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(float(lock["since"])))
    return {"run": str(lock["run"]), "owner": str(lock["owner"]), "since": since}
