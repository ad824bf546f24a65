"""The verb `verdict`: judges what the nodes of a cluster said; asked of the control node."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from ..verdict.cluster import Cluster, Thresholds
from ..verdict.containers import read_containers
from ..verdict.judgement import document, excluded, faults, judge, nodes, write
from ..verdict.notes import Transport, notes
from ..verdict.programs import read_program

# What a host must have for a program over all nodes.
NEEDS = ("reachable", "address", "names", "Open MPI", "ssh", "firewall", "source address")
# The same for one in trainer containers, where names, sshd and Open MPI are the container's own.
CONTAINER_NEEDS = (
    *("reachable", "address", "engine", "free", "image", "disk", "writable"),
    *("firewall", "source address", "GPUs usable"),
)


class Ran(NamedTuple):
    """What the program of MPI over all nodes came to; `excluded` says why hosts were left out."""

    excluded: dict[str, str]
    result: dict[str, Any]


class RanInContainers(NamedTuple):
    """The programs in trainer containers. What they wrote is read below the directory.

    Attributes:
        steps: of a run, what each came to, by host.
    """

    excluded: dict[str, str]
    steps: list[dict[str, Any]]


class Evidence(NamedTuple):
    """What was measured.

    Attributes:
        hosts: all nodes, in the order of the inventory. Lists of results have the same order.
        probes, nodes, logins, pairs: what the verbs probe, describe, log_in and measure came to.
        program: None where it was not asked for.
        containers: None likewise.
        transport: what runs use unasked.
        directory: where the files go. Without, nothing is written.
        began_at: when the first check began, Unix seconds.
    """

    hosts: list[str]
    probes: list[dict[str, Any]]
    nodes: list[dict[str, Any]]
    logins: list[dict[str, Any]]
    pairs: list[dict[str, Any]]
    thresholds: Thresholds
    program: Ran | None = None
    containers: RanInContainers | None = None
    transport: Transport = Transport("", False)
    directory: str = ""
    began_at: float = 0.0


def verdict(evidence: Evidence) -> dict[str, Any]:
    """Judge, and write `verdict.json` and `nodes.json`.

    Returns:
        `ok`: whether every check is passed. `faults`: who is at fault and why, a line each.
        `unfit_for_jobs`, `unfit_for_containers`: hosts that have to stay out of a program over all
        nodes, or of one in trainer containers, and why.
    """
    parts = zip(evidence.probes, evidence.nodes, evidence.logins, evidence.pairs)
    names = ("probe", "node", "ssh", "pairs")
    cluster = Cluster(
        {
            host: {name: _flat(said) for name, said in zip(names, told)}
            for host, told in zip(evidence.hosts, parts)
        },
        evidence.thresholds,
    )
    program = containers = None
    directory = evidence.directory
    if evidence.program is not None:
        hostnames = {cluster.answer(h, "node").get("nodename", h): h for h in cluster.hosts}
        program = read_program(evidence.program.result, evidence.program.excluded, hostnames)
    if evidence.containers is not None:
        ran = evidence.containers
        containers = read_containers(ran.steps, ran.excluded, directory)
    findings = judge(cluster, program, containers)
    ranks = containers.ranks if containers else []
    known = notes(cluster, evidence.transport)
    judged = document(cluster, findings, known, ranks, evidence.began_at)
    if directory:
        os.makedirs(directory, exist_ok=True)
        write(directory, "nodes.json", nodes(cluster))
        write(directory, "verdict.json", judged)
    return {
        "changed": bool(directory),
        "ok": judged["ok"],
        "faults": [
            ": ".join(filter(None, (fault.who, cause.reason, cause.remedy)))
            for fault in faults(findings)
            for cause in fault.causes
        ],
        "unfit_for_jobs": excluded(findings, NEEDS, cluster.hosts),
        "unfit_for_containers": excluded(findings, CONTAINER_NEEDS, cluster.hosts),
    }


def _flat(said: dict[str, Any]) -> dict[str, Any]:
    """What a task returned, with the program's answer as a part of it."""
    answer = said.get("answer") or {}
    # A node may answer anything; this is of no form that is well.
    return {**said, **(answer if isinstance(answer, dict) else {"checks": answer})}
