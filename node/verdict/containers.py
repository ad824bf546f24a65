"""Findings about the programs in trainer containers: MPI, Horovod's sums, GPUs at work."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..check.check import at_least, at_most, equal
from .cluster import Cluster, one_line
from .finding import Finding, about_node
from .programs import (
    FALLEN,
    Program,
    Rank,
    judge_program,
    lost_nodes,
    peak_bandwidth,
    products,
    spoiler_of,
    stalled_ranks,
    sums_trouble,
    trouble_of_launch,
)

# Of a rank's output, what is read.
LOG_BYTES = 65536


@dataclass(frozen=True)
class Containers:
    """What the programs in containers left.

    Attributes:
        troubles: hosts whose container could not be started or ended, and why.
        ranks: what each rank of trainer/verify wrote.
    """

    excluded: Mapping[str, str]
    troubles: Mapping[str, str]
    log: str
    ranks: Sequence[Rank]
    rank_logs: Mapping[int, str]


def judge_containers(
    cluster: Cluster, containers: Containers, network: Sequence[Finding]
) -> list[Finding]:
    """The containers, MPI in them, and Horovod in them.

    Args:
        network: findings about the network, where a slow allreduce may come from.
    """
    members = [host for host in cluster.hosts if host not in containers.excluded]
    program = _program(cluster, containers, members)
    mpi = judge_program(cluster, program)
    spoiler = spoiler_of(program, mpi)
    # mpirun ends all others when one falls.
    fallen = next((host for host in FALLEN.findall(containers.log) if host in members), None)
    return [
        *(_started(host, containers.troubles.get(host, "")) for host in members),
        *mpi,
        *(_sums(host, containers, spoiler, fallen) for host in members),
        *_allreduce(cluster, members, containers.ranks, network),
        *_computing(cluster, members, containers.ranks),
        *_products(cluster, containers.ranks),
    ]


def _started(host: str, trouble: str) -> Finding:
    told = one_line(trouble) if trouble else "start and end"
    return about_node(host, equal("containers", told, "start and end", "container_failed"))


def _program(cluster: Cluster, containers: Containers, members: Sequence[str]) -> Program:
    troubles = {
        host: "its container did not start" for host in members if host in containers.troubles
    }
    if not containers.ranks:
        troubles |= lost_nodes(containers.log, members)
    return Program(
        name="MPI in containers",
        excluded=containers.excluded,
        output=containers.log,
        trouble=trouble_of_launch(containers.log),
        hostnames={host: host for host in cluster.hosts},
        not_started=troubles,
    )


def _sums(host: str, containers: Containers, spoiler: str | None, fallen: str | None) -> Finding:
    """Whether the sums that a host got are right; of a fallen rank's host the others have none."""
    ranks, logs = containers.ranks, containers.rank_logs
    stalled = stalled_ranks(ranks, logs)
    own = [rank for rank in ranks if rank["host"] == host]
    because = None
    if not ranks:
        why = "" if spoiler else f"; {one_line(trouble_of_launch(containers.log))}"
        code, value, because = "sums_not_run", f"not run{why}", spoiler or fallen
    elif host in stalled:
        code, value = "sums_stalled", "it hands in nothing that the others could add"
    elif not own or any("sums" not in rank for rank in own):
        last = next((logs[r["rank"]] for r in own if logs.get(r["rank"])), containers.log)
        code, value = "sums_unfinished", f"{'no end' if own else 'no answer'}; {one_line(last)}"
        because = next(iter(stalled), fallen)
    else:
        code, value = "sums_wrong", next(filter(None, map(sums_trouble, own)), "right")
    at_fault = because if because != host else None
    return about_node(host, equal("Horovod sums", value, "right", code), at_fault)


def _allreduce(
    cluster: Cluster, members: Sequence[str], ranks: Sequence[Rank], network: Sequence[Finding]
) -> list[Finding]:
    """The bus bandwidth of all nodes together; a slow link of one slows all."""
    peak = peak_bandwidth(ranks)
    if peak is None or len(members) < 2:
        return []
    slow = [f for f in network if f.name in ("bandwidth", "latency") and not f.ok]
    because = slow[0].who if slow else None
    limit = cluster.thresholds.allreduce_gigabits
    check = at_least("Horovod bandwidth", round(peak, 2), limit, "Gbit/s", "low_allreduce")
    return [about_node(host, check, because) for host in members]


def _computing(cluster: Cluster, members: Sequence[str], ranks: Sequence[Rank]) -> list[Finding]:
    """Whether as many GPUs computed a product as the node's driver has for runs."""
    findings = []
    for host in members:
        given = cluster.answer(host, "probe").get("gpus", 0)
        own = [rank for rank in ranks if rank["host"] == host and "products" in rank]
        if not given or not own:
            continue  # or no rank came so far, which the sums tell
        computing = sum(len(rank["products"]) for rank in own)
        trouble = next(filter(None, (rank.get("gpu_trouble", "") for rank in own)), "")
        value = f"{computing}; {one_line(trouble)}" if trouble else computing
        check = equal("GPUs that compute", value, given, "gpus_not_computing")
        findings.append(about_node(host, check))
    return findings


def _products(cluster: Cluster, ranks: Sequence[Rank]) -> list[Finding]:
    """The matrix product of each GPU, beside those of its model."""
    limit = cluster.thresholds.gpu_slowness
    findings = []
    for product in products(ranks):
        host, subject = product["host"], f"GPU {product['gpu']}"
        if product["wrong"]:
            value = f"{product['wrong']} wrong elements"
            wrong = equal("GPU product", value, "right", "gpu_wrong_product", subject=subject)
            findings.append(about_node(host, wrong))
        ratio = round(product["ratio"], 2)
        time = at_most("GPU time", ratio, limit, "of the median", "gpu_slow", subject=subject)
        findings.append(about_node(host, time))
    return findings


def read_containers(
    steps: Sequence[Mapping[str, Mapping[str, Any]]], excluded: Mapping[str, str], directory: str
) -> Containers:
    """The programs in trainer containers.

    Args:
        steps: results of each step of a run, by host.
        directory: of the verdict, where the files of the ranks are.
    """
    paths = sorted(glob.glob(os.path.join(glob.escape(directory), "verify", "rank-*.json")))
    ranks = [rank for rank in map(_read_rank, paths) if rank is not None]
    ranks.sort(key=lambda rank: int(rank["rank"]))
    logs = os.path.join(directory, "logs")
    return Containers(
        excluded=excluded,
        troubles=step_troubles(steps, excluded),
        log=end_of(os.path.join(logs, "mpirun.log")),
        ranks=ranks,
        rank_logs={
            rank["rank"]: end_of(os.path.join(logs, f"rank-{rank['rank']}.log")) for rank in ranks
        },
    )


def _read_rank(path: str) -> Rank | None:
    """What a rank wrote; None where it is not what is relied on further, as if it had not come."""
    try:
        with open(path, encoding="utf-8") as file:
            rank: Rank = json.load(file)
        sums_trouble({"sums": [], **rank})
        peak_bandwidth([rank])
        for product in products([rank]):
            _ = round(product["ratio"], 2), product["gpu"], product["wrong"]
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return None
    return rank if type(rank.get("rank")) is int and isinstance(rank.get("host"), str) else None


def step_troubles(
    steps: Sequence[Mapping[str, Mapping[str, Any]]], excluded: Mapping[str, str]
) -> dict[str, str]:
    """Why the first step that failed on a host did, by host; those left out have no part."""
    troubles: dict[str, str] = {}
    for step in steps:
        for host, result in step.items():
            if host not in excluded and (result.get("failed") or result.get("unreachable")):
                troubles.setdefault(host, str(result.get("msg", "no answer")))
    return troubles


def end_of(path: str) -> str:
    """The last part of a file; empty where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(os.stat(path).st_size - LOG_BYTES, 0))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
