# Copyright Trainyard. Apache-2.0
"""Findings about hello_mpi, the program of MPI alone that runs once on every node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ansible.module_utils.cluster_check_cluster import Cluster, one_line
from ansible.module_utils.cluster_check_finding import Finding, about_node, about_pair
from ansible.module_utils.cluster_check_programs import spoken
from ansible.module_utils.training_node.check.check import equal


@dataclass(frozen=True)
class Program:
    """One run of the program.

    Attributes:
        name: of the check.
        excluded: hosts that were left out, and why.
        output: what the ranks printed.
        trouble: what mpirun said; it matters where a host does not answer.
        hostnames: host by the name that it gives itself in the output.
        not_started: hosts that kept the program from starting, and how.
    """

    name: str
    excluded: Mapping[str, str]
    output: str
    trouble: str
    hostnames: Mapping[str, str]
    not_started: Mapping[str, str]


def judge_program(cluster: Cluster, program: Program) -> list[Finding]:
    """Who took part, and who heard whom."""
    name, threshold = program.name, "answers"
    here, heard = spoken(program.output, program.hostnames)
    members = [host for host in cluster.hosts if host not in program.excluded]
    spoiler = next(iter(program.not_started), None)
    # Where nobody has heard anything, a program that ended before says more than the pairs.
    present = [host for host in members if host in here]
    tested = [(a, b) for a in present for b in present if a != b]
    failed = [pair for pair in tested if pair not in heard]
    because = cluster.because(failed, tested)
    findings = []
    for host in cluster.hosts:
        if host in program.excluded:
            check = equal(name, f"not run: {program.excluded[host]}", threshold)
            findings.append(about_node(host, check, "left_out"))
        elif host in program.not_started and host not in here:
            check = equal(name, program.not_started[host], threshold)
            findings.append(about_node(host, check, "mpi_not_started"))
        elif host not in here and spoiler is not None:
            check = equal(name, "not run", threshold)
            findings.append(about_node(host, check, "mpi_not_run", spoiler))
        elif host not in here:
            check = equal(name, f"no answer; {one_line(program.trouble)}", threshold)
            findings.append(about_node(host, check, "mpi_no_answer"))
        elif all(pair[1] != host for pair in failed):
            findings.append(about_node(host, equal(name, "answers", threshold), ""))
    for a, b in failed:
        check = equal(name, f"{b} hears nothing from {a}", threshold)
        findings.append(about_pair((a, b), check, "mpi_unheard", because.get((a, b))))
    return findings


def spoiler_of(program: Program, findings: list[Finding]) -> str | None:
    """Who kept the nodes from all hearing each other, a host or a pair; None where they did."""
    bad = [
        finding for finding in findings if not finding.ok and finding.host not in program.excluded
    ]
    return bad[0].who if bad else None
