# Copyright Trainyard. Apache-2.0
"""What the modules measured on the nodes of a cluster, and who is behind pairs that failed."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from ansible.module_utils.cluster_check_attribution import Pair, culprits
from ansible.module_utils.cluster_check_finding import Finding, about_pair
from ansible.module_utils.training_node.check.check import Check, equal

# The key under which a module about pairs returns its results, by part.
RESULTS = {"ssh": "logins", "pairs": "matches"}
NAMES_OF_CHECKS = {entry.name for entry in fields(Check)}


@dataclass(frozen=True)
class Thresholds:
    """What is good enough; see the argument specs of the role.

    Attributes:
        same_releases: what must be of the same release everywhere.
        clock_seconds: how far a clock may be from the others.
        bandwidth_gigabits: least bandwidth between two nodes, in 10^9 bits per second.
        latency_milliseconds: longest time there and back.
        allreduce_gigabits: least bus bandwidth over all nodes, in 10^9 bits per second.
        gpu_slowness: longest time of a GPU, as a multiple of the median of its model.
    """

    same_releases: tuple[str, ...]
    clock_seconds: float
    bandwidth_gigabits: float
    latency_milliseconds: float
    allreduce_gigabits: float
    gpu_slowness: float


class Cluster:
    """Measurements by host, in the order of the inventory.

    Args:
        measured: by host, what the modules returned: `probe` (of the node program), `node`
            (cluster_check_node), `ssh` (cluster_check_ssh) and `pairs` (cluster_check_pairs).
        thresholds: what is good enough.

    Attributes:
        hosts: all nodes.
        down: those that could not be looked at.
        up: all others.
        misled: pairs (a, b) where a resolves the name of b to a wrong address.
    """

    def __init__(self, measured: Mapping[str, Mapping[str, Any]], thresholds: Thresholds) -> None:
        self.measured = measured
        self.thresholds = thresholds
        self.hosts = list(measured)
        self.up = [host for host in self.hosts if "checks" in self.answer(host, "probe")]
        self.down = [host for host in self.hosts if host not in self.up]
        self.misled: set[Pair] = {
            (host, check["subject"])
            for host in self.up
            for check in self.node_checks(host)
            if check["name"] == "names" and not check["ok"]
        }

    def answer(self, host: str, part: str) -> Mapping[str, Any]:
        """What a module returned on a host; empty where it was not run."""
        answer: Mapping[str, Any] = self.measured[host].get(part) or {}
        if "checks" in answer and not are_checks(answer["checks"]):
            return {"failed": True, "msg": "what it says of itself is of no form that checks have"}
        return {} if answer.get("skipped") else answer

    def answers(self, part: str) -> list[tuple[str, Mapping[str, Any]]]:
        """Answers of a module about pairs, by host where it worked."""
        answers = [(host, self.answer(host, part)) for host in self.up]
        return [(host, answer) for host, answer in answers if RESULTS[part] in answer]

    def node_checks(self, host: str) -> list[Mapping[str, Any]]:
        """The checks that a node made of itself."""
        return [
            *self.answer(host, "probe").get("checks", []),
            *self.answer(host, "node").get("checks", []),
        ]

    def greetings(self) -> dict[Pair, Mapping[str, Any]]:
        """What each node saw when it connected to each other."""
        return {
            (a, b): greeting
            for a, answer in self.answers("pairs")
            for b, greeting in answer["greetings"].items()
        }

    def pairs(self, part: str) -> list[Pair]:
        """All ordered pairs; none where this part was not run at all."""
        if not any(self.answer(host, part) for host in self.hosts):
            return []
        return [(a, b) for a in self.hosts for b in self.hosts if a != b]

    def because(self, failed: Collection[Pair], tested: Collection[Pair]) -> dict[Pair, str]:
        """The node that each failed pair is attributed to, where there is one."""
        nodes = {pair: pair[0] for pair in failed if pair in self.misled}
        rest = [pair for pair in failed if pair not in nodes]
        guilty = culprits(rest, list(tested))
        for pair in rest:
            named = [node for node in guilty if node in pair]
            if named:
                nodes[pair] = named[0]
        return nodes

    def untested(self, name: str, part: str, pair: Pair) -> Finding:
        """A pair that was not tested, because of one of its nodes."""
        silent = [host for host in pair if RESULTS[part] not in self.answer(host, part)]
        down = [host for host in silent if host in self.down]
        text = f"{down[0]} is not reachable" if down else "no result"
        spoiler = next(iter((*down, *silent)), None)
        return about_pair(pair, equal(name, f"not tested: {text}", ""), "not_tested", spoiler)


def are_checks(entries: Any) -> bool:
    """Tell whether a node, which may say anything, said what checks of a node are."""
    return isinstance(entries, list) and all(
        isinstance(entry, Mapping)
        and entry.keys() >= NAMES_OF_CHECKS
        and isinstance(entry["name"], str)
        and isinstance(entry["ok"], bool)
        and isinstance(entry["subject"], str)
        for entry in entries
    )


def one_line(text: str) -> str:
    """The last line that says something, not too long."""
    # Ansible's own words before the message of a module.
    bare = re.sub(r"^(?:(?:Task|Action) failed: )+", "", str(text).strip())
    lines = [line.strip() for line in bare.splitlines() if line.strip(" -\t")]
    return lines[-1][:160] if lines else "it said nothing"
