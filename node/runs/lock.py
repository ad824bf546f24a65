"""The locks of a node: which runs have it. One file below the directory of all runs.

A run holds the whole node, or some of its GPUs; then others may hold the rest. Every change happens
under flock(2) on that directory, which the kernel gives back when a process dies: of two launches
at the same instant exactly one gets the node, or a GPU.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ..engine.containers import inspect

# A run that has no container yet keeps its node this long, in seconds: the time to start one.
GRACE = 120.0


@contextmanager
def guarded(root: str) -> Iterator[None]:
    """Keep every other process of this node from changing the lock below `root`, or a run there."""
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def container_of(run_id: str) -> str:
    """Name of the container of a run on every of its nodes."""
    return f"trainyard-{run_id}"


def read(root: str) -> list[dict[str, Any]]:
    """Return the locks, as the verb `take` writes them; none where nobody holds the node."""
    try:
        with open(os.path.join(root, ".lock"), encoding="utf-8") as file:
            document = json.load(file)
    except (FileNotFoundError, ValueError):
        return []
    # Up to layout 2 of the nodes' files a node had one lock, and it stood there alone.
    return document if isinstance(document, list) else [document]


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


def holders(root: str) -> list[dict[str, Any]]:
    """Return the locks of live runs; without any the whole node can be taken."""
    return [lock for lock in read(root) if is_live(lock)]


def own(root: str, run: dict[str, Any]) -> dict[str, Any] | None:
    """Return the lock of this very run, or None: it holds nothing here."""
    return next((lock for lock in read(root) if same(lock, run)), None)


def gpus_of(lock: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the GPUs that a run holds, index and uuid of each; none where it holds the node."""
    gpus: list[dict[str, Any]] = lock.get("gpus", [])
    return gpus


def is_part(lock: dict[str, Any]) -> bool:
    """Tell whether a run holds some GPUs, and not the whole node."""
    return bool(gpus_of(lock))


def same(lock: dict[str, Any], other: dict[str, Any]) -> bool:
    """Tell whether two locks are of one run; two checkouts may give two runs the same id."""
    return (lock["run"], lock["home"]) == (other["run"], other["home"])


def write(root: str, locks: Sequence[dict[str, Any]]) -> None:
    """Put these locks there in place of all; only under `guarded`."""
    path = os.path.join(root, ".lock")
    if not locks:
        with suppress(FileNotFoundError):
            os.remove(path)
        return
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(locks, file)
    os.replace(path + ".new", path)


def put(root: str, lock: dict[str, Any]) -> None:
    """Put a lock beside the others, in place of this run's own; only under `guarded`."""
    write(root, [*(present for present in read(root) if not same(present, lock)), lock])


def release(root: str, run: dict[str, Any]) -> None:
    """Take this run's lock away, if it has one."""
    with guarded(root):
        locks = read(root)
        kept = [lock for lock in locks if not same(lock, run)]
        if len(kept) < len(locks):
            write(root, kept)


def holder_values(lock: dict[str, Any]) -> dict[str, str]:
    """Who holds it, as the values of a problem: run, owner and since when (UTC)."""
    since = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(float(lock["since"])))
    return {"run": str(lock["run"]), "owner": str(lock["owner"]), "since": since}
