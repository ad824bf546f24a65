"""Parts of a node: some of its GPUs, a port of their own, memory and cores in proportion.

What a run holds beside others is decided here, from the locks of the live ones alone. Whoever takes
something does so under `guarded` of node/runs/lock.py.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..check.problems import Problem, problem
from .lock import gpus_of, holder_values, is_part

# Of a GPU, what a lock has: its number, for people and containers, and what stays its identity.
GPU_NAMES = ("index", "uuid")


def held_gpus(locks: Iterable[dict[str, Any]]) -> set[str]:
    """Return the UUIDs of the GPUs that some runs hold as parts."""
    return {gpu["uuid"] for lock in locks for gpu in gpus_of(lock)}


def free_gpus(
    offered: Sequence[Mapping[str, Any]], locks: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return index and uuid of the GPUs that nobody holds, the lowest number first."""
    held = held_gpus(locks)
    free = [{name: gpu[name] for name in GPU_NAMES} for gpu in offered if gpu["uuid"] not in held]
    return sorted(free, key=lambda gpu: int(gpu["index"]))


def free_port(address: str, ports: Sequence[int], locks: Iterable[dict[str, Any]]) -> int | None:
    """Return the first port that no run holds and that can be listened on; None for none.

    Args:
        ports: those that runs which share a node may take, in order.
        locks: of the live runs. The sshd of a run that starts does not listen yet.
    """
    held = {lock.get("port") for lock in locks}
    return next((port for port in ports if port not in held and can_listen(address, port)), None)


def can_listen(address: str, port: int) -> bool:
    """Tell whether a port can be listened on."""
    return not why_deaf(address, port)


def why_deaf(address: str, port: int) -> str:
    """Return why a port cannot be listened on; empty where it can."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, port))
        except OSError as error:
            return error.strerror or str(error)
    return ""


def in_the_way(locks: Iterable[dict[str, Any]], wanted: int) -> list[dict[str, Any]]:
    """Return the locks beside which a run cannot have this node, however many GPUs are free.

    Args:
        wanted: number of GPUs that are wanted; 0 for the whole node.
    """
    return [lock for lock in locks if not wanted or not is_part(lock)]


def shortage(locks: Iterable[dict[str, Any]], wanted: int, free: int, count: int) -> list[Problem]:
    """Why the GPUs of this node are too few, and who holds which.

    Args:
        free: number of those that can be had now.
        count: number of those that the node gives to runs.
    """
    if wanted > count:
        return [problem("gpus_lacking", wanted=wanted, count=count)]
    if wanted <= free:
        return []
    taken = [
        problem(
            "gpus_held",
            gpus=", ".join(str(gpu["index"]) for gpu in gpus_of(lock)),
            **holder_values(lock),
        )
        for lock in locks
        if is_part(lock)
    ]
    return [problem("gpus_too_few", wanted=wanted, free=free, count=count), *taken]
