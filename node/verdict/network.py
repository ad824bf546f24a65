"""Findings about logins and the network between every two nodes, and about their clocks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..check.check import Check, at_least, at_most, equal
from .attribution import Pair, clock_errors
from .cluster import Cluster, one_line
from .finding import Finding, about_node, about_pair

PART = "pairs"
# What ssh says, the code of that, and what it means: {a} logs in on {b}.
MESSAGES = (
    (
        r"host key verification failed|identification has changed",
        "ssh_host_key",
        "the host key of {b} is not the one that {a} knows",
    ),
    (r"permission denied", "ssh_key_refused", "{b} refuses the key of {a}"),
    (
        r"could not resolve|name or service not known",
        "ssh_name_unknown",
        "{a} does not know the name {b}",
    ),
    (r"refused", "ssh_not_listening", "nothing listens on the SSH port of {b}"),
    (r"no route to host|timed out|no answer", "ssh_no_answer", "no answer from {b}"),
)


@dataclass
class Matches:
    """What the matches of the tournament came to, in both directions.

    Attributes:
        milliseconds: there and back.
        gigabits: 10^9 bits per second, from the first of the pair to the second.
        lost: percent of TCP's segments that had to be sent again, likewise.
    """

    milliseconds: dict[Pair, float] = field(default_factory=dict)
    gigabits: dict[Pair, float] = field(default_factory=dict)
    lost: dict[Pair, float] = field(default_factory=dict)
    troubles: dict[Pair, str] = field(default_factory=dict)


def judge_network(cluster: Cluster) -> list[Finding]:
    """Open ports, source addresses, clocks, latency, bandwidth and loss."""
    matches = matches_of(cluster)
    limits = cluster.thresholds
    latency = {
        pair: at_most("latency", round(value, 3), limits.latency_milliseconds, "ms", "high_latency")
        for pair, value in matches.milliseconds.items()
    }
    bandwidth = {
        pair: at_least(
            "bandwidth", round(value, 3), limits.bandwidth_gigabits, "Gbit/s", "low_bandwidth"
        )
        for pair, value in matches.gigabits.items()
    }
    return [
        *_ports(cluster),
        *_sources(cluster),
        *_clocks(cluster),
        *_links(cluster, "latency", latency, matches.troubles),
        *_links(cluster, "bandwidth", bandwidth, matches.troubles),
        *_losses(cluster, matches.lost),
    ]


def _ports(cluster: Cluster) -> list[Finding]:
    greetings = cluster.greetings()
    failed = {pair: seen["trouble"] for pair, seen in greetings.items() if seen["trouble"]}
    because = cluster.because(failed, greetings)
    findings = []
    for pair in cluster.pairs(PART):
        if pair not in greetings:
            findings.append(cluster.untested("firewall", PART, pair))
            continue
        check = equal("firewall", failed.get(pair, "open"), "open", "port_closed")
        findings.append(about_pair(pair, check, because.get(pair)))
    return findings


def _sources(cluster: Cluster) -> list[Finding]:
    sources = {
        pair: seen["source"] for pair, seen in cluster.greetings().items() if not seen["trouble"]
    }
    addresses = {host: cluster.answer(host, "probe").get("address", "") for host in cluster.hosts}
    failed = [pair for pair, source in sources.items() if source != addresses[pair[0]]]
    because = cluster.because(failed, sources)
    return [
        about_pair(
            pair,
            equal("source address", source, addresses[pair[0]], "masqueraded"),
            because.get(pair),
        )
        for pair, source in sources.items()
    ]


def _clocks(cluster: Cluster) -> list[Finding]:
    ahead = {
        pair: float(seen["clock_seconds"])
        for pair, seen in cluster.greetings().items()
        if seen["clock_seconds"] is not None
    }
    limit = cluster.thresholds.clock_seconds
    return [
        about_node(host, at_most("clock", round(abs(error), 3), limit, "s off", "clock_off"))
        for host, error in clock_errors(ahead, cluster.up).items()
    ]


def matches_of(cluster: Cluster) -> Matches:
    """What the verb measure came to on all nodes, each way of a pair by itself."""
    matches = Matches()
    for a, answer in cluster.answers(PART):
        for b, match in answer["matches"].items():
            there, back = (a, b), (b, a)
            if "latency_seconds" in match:
                milliseconds = match["latency_seconds"] * 1e3
                matches.milliseconds[there] = matches.milliseconds[back] = milliseconds
            if "bits_per_second" in match:
                matches.gigabits[there] = match["bits_per_second"][0] / 1e9
                matches.gigabits[back] = match["bits_per_second"][1] / 1e9
                matches.lost[there], matches.lost[back] = match["lost_percent"]
            elif not match["at_home"]:
                matches.troubles[there] = matches.troubles[back] = match["trouble"]
    return matches


def _links(
    cluster: Cluster,
    name: str,
    checks: Mapping[Pair, Check],
    troubles: Mapping[Pair, str],
) -> list[Finding]:
    """Findings about a number of each pair."""
    failed = [pair for pair, check in checks.items() if not check.ok]
    failed += [pair for pair in troubles if pair not in checks]
    because = cluster.because(failed, [*checks, *troubles])
    findings = []
    for pair in cluster.pairs(PART):
        if pair in checks:
            findings.append(about_pair(pair, checks[pair], because.get(pair)))
        elif pair in troubles:
            check = equal(name, f"not measured: {troubles[pair]}", "", "not_measured")
            findings.append(about_pair(pair, check, because.get(pair)))
        else:
            findings.append(cluster.untested(name, PART, pair))
    return findings


def _losses(cluster: Cluster, lost: Mapping[Pair, float]) -> list[Finding]:
    limit = cluster.thresholds.loss_percent
    checks = {
        pair: at_most("loss", round(percent, 2), limit, "% sent again", "high_loss")
        for pair, percent in lost.items()
    }
    because = cluster.because([pair for pair in checks if not checks[pair].ok], checks)
    return [about_pair(pair, check, because.get(pair)) for pair, check in checks.items()]


def judge_logins(cluster: Cluster) -> list[Finding]:
    """Whether the training user of every node can log in on every other."""
    outcome = {
        (a, b): login
        for a, answer in cluster.answers("ssh")
        for b, login in answer["logins"].items()
    }
    failed = {pair: login["trouble"] for pair, login in outcome.items() if login["trouble"]}
    because = cluster.because(failed, outcome)
    findings = []
    for pair in cluster.pairs("ssh"):
        if pair not in outcome:
            findings.append(cluster.untested("ssh", "ssh", pair))
            continue
        code, meaning = ssh_trouble(failed[pair], *pair) if pair in failed else ("", "logs in")
        check = equal("ssh", meaning, "logs in", code)
        findings.append(about_pair(pair, check, because.get(pair)))
    return findings


def ssh_trouble(message: str, a: str, b: str) -> tuple[str, str]:
    """Code and meaning of what ssh said when a logged in on b."""
    for pattern, code, meaning in MESSAGES:
        if re.search(pattern, message, re.IGNORECASE):
            return code, meaning.format(a=a, b=b)
    return "ssh_failed", one_line(message)
