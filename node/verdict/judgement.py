"""From what the nodes measured to a verdict: all findings, who is at fault, and the files of that.

schemas/verdict.schema.json describes `verdict.json`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .cluster import Cluster
from .containers import Containers, judge_containers
from .finding import Finding
from .network import judge_logins, judge_network
from .nodes import judge_nodes
from .notes import Note
from .programs import Program, Rank, allreduce, judge_program


@dataclass(frozen=True)
class Cause:
    """Why somebody is at fault.

    Attributes:
        remedy: what to do; may be empty.
        times: how many findings of this check are that one's fault.
    """

    name: str
    code: str
    reason: str
    remedy: str
    times: int


@dataclass(frozen=True)
class Fault:
    """Who is at fault, a host or "a to b", and why."""

    who: str
    causes: tuple[Cause, ...]


def judge(
    cluster: Cluster, program: Program | None = None, containers: Containers | None = None
) -> list[Finding]:
    """Everything there is to say, in the order of the checks.

    Args:
        program: hello_mpi on the nodes themselves; None where it was not run.
        containers: the programs in trainer containers; None likewise.
    """
    findings = [*judge_nodes(cluster), *judge_logins(cluster), *judge_network(cluster)]
    if program is not None:
        findings += judge_program(cluster, program)
    if containers is not None:
        findings += judge_containers(cluster, containers, findings)
    return findings


def excluded(
    findings: Sequence[Finding], names: Sequence[str], hosts: Sequence[str]
) -> dict[str, str]:
    """Hosts that a program over all nodes cannot be run with, and why.

    Of a pair that does not work together, the second one stays out.

    Args:
        names: the checks that a host must have passed.
        hosts: all of them, in the order of the inventory.
    """
    reasons: dict[str, str] = {}
    pairs = []
    for finding in findings:
        if finding.ok or finding.name not in names:
            continue
        if finding.host is not None:
            reasons.setdefault(finding.host, finding.name)
        elif finding.because:
            reasons.setdefault(finding.because, finding.name)
        elif finding.pair is not None:
            pairs.append((finding.pair, finding.name))
    for pair, name in pairs:
        if not set(pair) & set(reasons):
            later = max(pair, key=hosts.index)
            reasons[later] = f"{name} {pair[0]} to {pair[1]}"
    return reasons


def faults(findings: Sequence[Finding]) -> list[Fault]:
    """Who is at fault, and why: the bad findings by node, or by pair where no node is named.

    What a node spoils for others stands under that node, once a check.
    """
    by_fault: dict[str, list[Finding]] = {}
    for finding in findings:
        if not finding.ok:
            by_fault.setdefault(finding.who, []).append(finding)
    return [Fault(who, _causes(who, bad)) for who, bad in by_fault.items()]


def _causes(who: str, bad: Sequence[Finding]) -> tuple[Cause, ...]:
    by_check: dict[str, Finding] = {}
    # Its own findings say more than those of pairs and of other nodes that it spoils.
    for finding in sorted(bad, key=lambda finding: finding.host != who):
        by_check.setdefault(finding.name, finding)
    return tuple(
        Cause(
            name=name,
            code=finding.code,
            reason=finding.check.reason(),
            remedy=finding.remedy,
            times=sum(1 for other in bad if other.name == name),
        )
        for name, finding in by_check.items()
    )


def document(
    cluster: Cluster,
    findings: Sequence[Finding],
    notes: Sequence[Note],
    ranks: Sequence[Rank],
    began_at: float,
) -> dict[str, Any]:
    """What goes into verdict.json.

    Args:
        notes: what is worth knowing and nobody's fault.
        ranks: what the ranks of trainer/verify wrote; empty where they were not run.
        began_at: when the first check began, Unix seconds.
    """
    return {
        "ok": all(finding.ok for finding in findings),
        "began_at": began_at,
        "seconds": round(time.time() - began_at, 1),
        "hosts": cluster.hosts,
        "faults": [asdict(fault) for fault in faults(findings)],
        "notes": [{**asdict(note), "hosts": list(note.hosts)} for note in notes],
        "checks": [finding.asdict() for finding in findings],
        "bandwidth_gigabits": matrix(findings, cluster.hosts, "bandwidth"),
        "latency_milliseconds": matrix(findings, cluster.hosts, "latency"),
        "allreduce": allreduce(ranks),
        "matches": matches(cluster),
    }


def matrix(
    findings: Sequence[Finding], hosts: Sequence[str], name: str
) -> list[list[float | None]]:
    """Numbers of the pairs, from each host (row) to each (column)."""
    values = {
        finding.pair: finding.check.value
        for finding in findings
        if finding.name == name and isinstance(finding.check.value, float)
    }
    return [[values.get((a, b)) for b in hosts] for a in hosts]


def matches(cluster: Cluster) -> list[dict[str, Any]]:
    """When which pair was measured."""
    return [
        {"pair": [host, peer], **{key: match[key] for key in ("round", "from", "until")}}
        for host in cluster.hosts
        for peer, match in cluster.answer(host, "pairs").get("matches", {}).items()
        if "bits_per_second" in match
    ]


def nodes(cluster: Cluster) -> dict[str, Any]:
    """What goes into nodes.json: what each node is made of."""
    descriptions = {}
    for host in cluster.hosts:
        node, probe = cluster.answer(host, "node"), cluster.answer(host, "probe")
        if "hardware" in probe:
            descriptions[host] = {
                "nodename": node.get("nodename"),
                **probe["hardware"],
                "gpus": node.get("gpus", []),
                "rdma": node.get("rdma", []),
                "ways": node.get("ways", {}),
                "releases": node.get("releases", {}),
            }
    return descriptions


def write(directory: str, name: str, content: Any) -> None:
    """Write a JSON file as a whole or not at all."""
    path = os.path.join(directory, name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(content, file, indent=2, ensure_ascii=False)
        file.write("\n")
    os.replace(path + ".new", path)
