# Copyright Trainyard. Apache-2.0
"""From what the nodes measured to a verdict: all findings, and who is at fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible.module_utils.cluster_check_cluster import Cluster
from ansible.module_utils.cluster_check_containers import Containers, judge_containers
from ansible.module_utils.cluster_check_finding import Finding
from ansible.module_utils.cluster_check_mpi import Program, judge_program
from ansible.module_utils.cluster_check_network import judge_network
from ansible.module_utils.cluster_check_nodes import judge_nodes
from ansible.module_utils.cluster_check_ssh_findings import judge_logins


@dataclass(frozen=True)
class Cause:
    """Why somebody is at fault.

    Attributes:
        name: of the check.
        code: of the trouble.
        reason: the finding in one line.
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
            reason=finding.reason,
            remedy=finding.check.remedy,
            times=sum(1 for other in bad if other.name == name),
        )
        for name, finding in by_check.items()
    )
