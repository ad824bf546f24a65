# Copyright Trainyard. Apache-2.0
"""What the programs over all nodes came to, read from their output and their files."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

# What docker/trainer/hello_mpi.c prints.
HERE = re.compile(r"^rank \d+ of \d+ on (\S+) is here$", re.MULTILINE)
HEARD = re.compile(r"^rank \d+ of \d+ on (\S+) heard from (\S+)$", re.MULTILINE)
# What the launcher says of a container that does not answer (peer_unreachable of the trainer).
UNREACHED = re.compile(
    r"^trainyard: the container on (\S+) \((\S+)\) cannot be reached: (.+)$", re.M
)
# What PRRTE says of a node whose daemon it loses, or cannot start.
LOST = re.compile(r"^\s*Remote daemon:.* on node (\S+)\s*$", re.MULTILINE)
# What Horovod says of ranks that do not hand in what the others wait for.
STALLED = re.compile(r"(?:Stalled|Missing) ranks:\s*(\d+)!?:")

# What mpirun says when it ends a job by --timeout.
TIMED_OUT = "The user-provided time limit for job execution has been reached"

Rank = Mapping[str, Any]


def spoken(said: str, hosts: Mapping[str, str]) -> tuple[set[str], set[tuple[str, str]]]:
    """Hosts that took part, and pairs (a, b) where b heard a.

    Args:
        hosts: host by the name that it gives itself.
    """
    here = {hosts[name] for name in HERE.findall(said) if name in hosts}
    heard = {
        (hosts[speaker], hosts[listener])
        for listener, speaker in HEARD.findall(said)
        if speaker in hosts and listener in hosts
    }
    return here, heard


def lost_nodes(log: str, hosts: Sequence[str]) -> dict[str, str]:
    """Hosts that mpirun could not start on, or lost, and why."""
    reasons = {
        host: f"its container at {address} cannot be reached from {hosts[0]}: {why.strip()}"
        for host, address, why in UNREACHED.findall(log)
    }
    for host in LOST.findall(log):
        reasons.setdefault(host, "the connection of mpirun to its container broke")
    return {host: why for host, why in reasons.items() if host in hosts}


def trouble_of_launch(log: str) -> str:
    """What mpirun has to say, as far as a person is helped by it."""
    return "no end within its time limit" if TIMED_OUT in log else log


def stalled_ranks(ranks: Sequence[Rank], logs: Mapping[int, str]) -> list[str]:
    """Hosts of ranks for which Horovod waited in vain."""
    host_of = {rank["rank"]: rank["host"] for rank in ranks}
    named = [int(rank) for log in logs.values() for rank in STALLED.findall(log)]
    return list(dict.fromkeys(host_of[rank] for rank in named if rank in host_of))


def sums_trouble(rank: Rank) -> str:
    """What is wrong with the sums of a rank; empty where all are right."""
    return ", ".join(
        f"{case['wrong']} of {case['elements']} wrong in {case['dtype']}"
        for case in rank["sums"]
        if case["wrong"]
    )


def allreduce(ranks: Sequence[Rank]) -> list[dict[str, Any]]:
    """The measurements of allreduce; the ranks have agreed on them, so any rank's will do."""
    return next((list(rank["bandwidth"]) for rank in ranks if rank.get("bandwidth")), [])


def peak_bandwidth(ranks: Sequence[Rank]) -> float | None:
    """The largest bus bandwidth over all message sizes in Gbit/s; None where none was measured."""
    rates = [entry["bus_gigabits_per_second"] for entry in allreduce(ranks)]
    return max(rates) if rates else None


def products(ranks: Sequence[Rank]) -> list[dict[str, Any]]:
    """The matrix products of all GPUs, each with host and `ratio`: time by its model's median."""
    measured = [
        {"host": rank["host"], **product} for rank in ranks for product in rank.get("products", [])
    ]
    seconds: dict[str, list[float]] = {}
    for product in measured:
        seconds.setdefault(product["model"], []).append(product["seconds"])
    for product in measured:
        product["ratio"] = product["seconds"] / statistics.median(seconds[product["model"]])
    return measured
