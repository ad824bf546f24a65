"""What the programs over all nodes came to, read from their output and their files.

One is hello_mpi, of MPI alone, which runs once on every node.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..check.check import equal
from .cluster import Cluster, one_line
from .finding import Finding, about_node, about_pair

# What docker/trainer/hello_mpi.c prints.
HERE = re.compile(r"^rank \d+ of \d+ on (\S+) is here$", re.MULTILINE)
HEARD = re.compile(r"^rank \d+ of \d+ on (\S+) heard from (\S+)$", re.MULTILINE)
# What the launcher says of a container that does not answer (peer_unreachable of the trainer).
UNREACHED = re.compile(
    r"^trainyard: the container on (\S+) \((\S+)\) cannot be reached: (.+)$", re.M
)
# What PRRTE says of a node whose daemon it loses, or cannot start.
LOST = re.compile(r"^\s*Remote daemon:.* on node (\S+)\s*$", re.MULTILINE)
# What it says of a rank that ended by itself, and of the node that it was on.
FALLEN = re.compile(r"process rank \d+ with PID \d+ on node (\S+) exited on\s+signal")
# What its shell says there of a program that cannot be started.
UNSTARTED = re.compile(
    r"^.*: (?:Permission denied|command not found|No such file or directory)\s*$", re.MULTILINE
)
# What Horovod says of ranks that do not hand in what the others wait for.
STALLED = re.compile(r"(?:Stalled|Missing) ranks:\s*(\d+)!?:")

# What mpirun says when it ends a job by --timeout, and the exit status of timeout(1).
TIMED_OUT = "The user-provided time limit for job execution has been reached"
TIMED_OUT_STATUS = 124
# The same of a program that did not heed that: mpirun waits for nodes that a firewall hides.
KILLED_STATUS = 137

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


@dataclass(frozen=True)
class Program:
    """One run of the program.

    Attributes:
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
            check = equal(name, f"not run: {program.excluded[host]}", threshold, "left_out")
            findings.append(about_node(host, check))
        elif host in program.not_started and host not in here:
            check = equal(name, program.not_started[host], threshold, "mpi_not_started")
            findings.append(about_node(host, check))
        elif host not in here and spoiler is not None:
            check = equal(name, "not run", threshold, "mpi_not_run")
            findings.append(about_node(host, check, spoiler))
        elif host not in here:
            said = f"no answer; {one_line(program.trouble)}"
            findings.append(about_node(host, equal(name, said, threshold, "mpi_no_answer")))
        elif all(pair[1] != host for pair in failed):
            findings.append(about_node(host, equal(name, "answers", threshold)))
    for a, b in failed:
        check = equal(name, f"{b} hears nothing from {a}", threshold, "mpi_unheard")
        findings.append(about_pair((a, b), check, because.get((a, b))))
    return findings


def spoiler_of(program: Program, findings: list[Finding]) -> str | None:
    """Who kept the nodes from all hearing each other, a host or a pair; None where they did."""
    bad = [
        finding for finding in findings if not finding.ok and finding.host not in program.excluded
    ]
    return bad[0].who if bad else None


def read_program(
    result: Mapping[str, Any], excluded: Mapping[str, str], hostnames: Mapping[str, str]
) -> Program:
    """The program of MPI on the nodes.

    Args:
        result: of the task that ran it; empty where no node could.
        hostnames: host by the name that it gives itself.
    """
    output = str(result.get("stdout", ""))
    trouble = str(result.get("stderr", "")) or output or str(result.get("msg", ""))
    if result.get("rc") in (TIMED_OUT_STATUS, KILLED_STATUS):
        trouble = "no end within its time limit"
    why = UNSTARTED.search(trouble)
    said = one_line(why[0]) if why else "the connection of mpirun to it broke"
    lost = {hostnames[name]: said for name in LOST.findall(trouble) if name in hostnames}
    return Program("MPI", excluded, output, trouble, hostnames, lost)
