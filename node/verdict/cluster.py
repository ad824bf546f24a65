"""What was measured on the nodes of a cluster, and who is behind pairs that failed."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from ..check.check import LIMITS, Check, equal
from ..check.problems import PROBLEMS, Problem
from .attribution import Pair, culprits
from .finding import Finding, about_pair

# The key under which a verb about pairs answers, by part.
RESULTS = {"ssh": "logins", "pairs": "matches"}
NAMES_OF_CHECKS = {entry.name for entry in fields(Check)}


class Thresholds(NamedTuple):
    """What is good enough; see the argument specs of the role.

    Attributes:
        same_releases: what must be of the same release everywhere.
        clock_seconds: how far a clock may be from the others.
        bandwidth_gigabits: least bandwidth between two nodes, in 10^9 bits per second.
        latency_milliseconds: longest time there and back.
        loss_percent: most of TCP's segments that may have to be sent again.
        allreduce_gigabits: least bus bandwidth over all nodes, in 10^9 bits per second.
        gpu_slowness: longest time of a GPU, as a multiple of the median of its model.
    """

    same_releases: list[str]
    clock_seconds: float
    bandwidth_gigabits: float
    latency_milliseconds: float
    loss_percent: float
    allreduce_gigabits: float
    gpu_slowness: float


class Cluster:
    """Measurements by host, in the order of the inventory.

    Args:
        measured: by host, what the verbs came to: `probe`, `node` (describe), `ssh` (log_in) and
            `pairs` (measure).

    Attributes:
        down: those that could not be looked at.
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
        """What a verb answered on a host, or why it did not; empty where it was not asked."""
        answer: Mapping[str, Any] = self.measured[host].get(part) or {}
        if not is_well(answer):
            return {"failed": True, "msg": "what it says of itself is of no form that checks have"}
        return {} if answer.get("skipped") else answer

    def answers(self, part: str) -> list[tuple[str, Mapping[str, Any]]]:
        """Answers of a verb about pairs, by host where it worked."""
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
        return about_pair(pair, equal(name, f"not tested: {text}", "", "not_tested"), spoiler)


def is_well(answer: Mapping[str, Any]) -> bool:
    """Tell whether a node, which may say anything, said what is relied on further."""
    try:
        texts = [answer.get(name, "") for name in ("run", "image_id", "address", "nodename")]
        texts += answer.get("releases", {}).values()
        about = [*answer.get("logins", {}).values(), *answer.get("greetings", {}).values()]
        matches = answer.get("matches", {}).values()
        texts += [entry["trouble"] for entry in (*about, *matches)]
        texts += [entry["source"] for entry in answer.get("greetings", {}).values()]
        numbers = [entry["clock_seconds"] or 0 for entry in answer.get("greetings", {}).values()]
        numbers += [match.get("latency_seconds", 0) for match in matches]
        numbers += [match[name] for match in matches for name in ("at_home", "round")]
        measured = [match for match in matches if "bits_per_second" in match]
        numbers += [match[name] for match in measured for name in ("from", "until")]
        pairs = [match[n] for match in measured for n in ("bits_per_second", "lost_percent")]
        numbers += [number for pair in pairs for number in pair]
        for entry in answer.get("problems", []):
            if entry["code"] in PROBLEMS:
                texts.append(Problem(entry["code"], entry["values"]).text)
    except (AttributeError, KeyError, TypeError, ValueError):
        return False
    return (
        all(isinstance(text, str) for text in texts)
        and all(isinstance(number, (int, float)) for number in numbers)
        and all(len(pair) == 2 for pair in pairs)
        and isinstance(answer.get("hardware", {}), Mapping)
        and are_checks(answer.get("checks", []))
    )


def are_checks(entries: Any) -> bool:
    """Tell whether these are checks of a node."""
    return isinstance(entries, list) and all(
        isinstance(entry, Mapping)
        and entry.keys() == NAMES_OF_CHECKS
        and all(isinstance(entry[name], str) for name in ("name", "unit", "subject", "code"))
        and isinstance(entry["ok"], bool)
        and entry["limit"] in LIMITS
        and isinstance(entry["values"], Mapping)
        for entry in entries
    )


def one_line(text: str) -> str:
    """The last line that says something, not too long."""
    # Ansible's own words before the message of a task.
    bare = re.sub(r"^(?:(?:Task|Action) failed: )+", "", str(text).strip())
    # The runtime of Open MPI ends what it says with a null byte.
    bare = bare.replace("\0", "")
    lines = [line.strip() for line in bare.splitlines() if line.strip(" -\t")]
    return lines[-1][:160] if lines else "it said nothing"
