# Copyright Trainyard. Apache-2.0
"""Findings about the network between every two nodes, and about their clocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ansible.module_utils.cluster_check_attribution import Pair, clock_errors
from ansible.module_utils.cluster_check_cluster import Cluster
from ansible.module_utils.cluster_check_finding import Finding, about_node, about_pair
from ansible.module_utils.training_node.check.check import Check, at_least, at_most, equal

PART = "pairs"


@dataclass
class Matches:
    """What the matches of the tournament came to, in both directions.

    Attributes:
        milliseconds: there and back.
        gigabits: 10^9 bits per second, from the first of the pair to the second.
        troubles: why there is no bandwidth.
    """

    milliseconds: dict[Pair, float] = field(default_factory=dict)
    gigabits: dict[Pair, float] = field(default_factory=dict)
    troubles: dict[Pair, str] = field(default_factory=dict)


def judge_network(cluster: Cluster) -> list[Finding]:
    """Open ports, source addresses, clocks, latency and bandwidth."""
    matches = _matches(cluster)
    limits = cluster.thresholds
    latency = {
        pair: at_most("latency", round(value, 3), limits.latency_milliseconds, "ms")
        for pair, value in matches.milliseconds.items()
    }
    bandwidth = {
        pair: at_least("bandwidth", round(value, 3), limits.bandwidth_gigabits, "Gbit/s")
        for pair, value in matches.gigabits.items()
    }
    latency_limit = f"{limits.latency_milliseconds} ms"
    bandwidth_limit = f"{limits.bandwidth_gigabits} Gbit/s"
    return [
        *_ports(cluster),
        *_sources(cluster),
        *_clocks(cluster),
        *_links(cluster, "latency", latency, matches.troubles, latency_limit, "high_latency"),
        *_links(
            cluster, "bandwidth", bandwidth, matches.troubles, bandwidth_limit, "low_bandwidth"
        ),
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
        check = equal("firewall", failed.get(pair, "open"), "open")
        findings.append(about_pair(pair, check, "port_closed", because.get(pair)))
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
            equal("source address", source, addresses[pair[0]]),
            "masqueraded",
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
        about_node(host, at_most("clock", round(abs(error), 3), limit, "s off"), "clock_off")
        for host, error in clock_errors(ahead, cluster.up).items()
    ]


def _matches(cluster: Cluster) -> Matches:
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
            elif not match["at_home"]:
                matches.troubles[there] = matches.troubles[back] = match["trouble"]
    return matches


def _links(
    cluster: Cluster,
    name: str,
    checks: Mapping[Pair, Check],
    troubles: Mapping[Pair, str],
    limit: str,
    code: str,
) -> list[Finding]:
    """Findings about a number of each pair.

    Args:
        name: of the check.
        checks: where there is a number.
        troubles: why there is none.
        limit: the threshold with its unit.
        code: of a number that is not good enough.
    """
    failed = [pair for pair, check in checks.items() if not check.ok]
    failed += [pair for pair in troubles if pair not in checks]
    because = cluster.because(failed, [*checks, *troubles])
    findings = []
    for pair in cluster.pairs(PART):
        if pair in checks:
            findings.append(about_pair(pair, checks[pair], code, because.get(pair)))
        elif pair in troubles:
            check = equal(name, f"not measured: {troubles[pair]}", limit)
            findings.append(about_pair(pair, check, "not_measured", because.get(pair)))
        else:
            findings.append(cluster.untested(name, PART, pair))
    return findings
