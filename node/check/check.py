# Copyright Trainyard. Apache-2.0
"""What a check of a node found: a value beside its threshold, and what to do where it falls short.

Travels as a plain dictionary from the modules on the nodes to the verdict on the control node.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

# How a threshold is meant.
LIMITS = {"least": "at least ", "most": "at most ", "equal": ""}


@dataclass(frozen=True)
class Check:
    """One finding.

    Attributes:
        name: what was looked at, like `disk`.
        ok: whether it is good enough.
        value: what was found.
        threshold: what was wanted.
        limit: how the threshold is meant, a key of `LIMITS`.
        unit: of value and threshold, where they are numbers.
        subject: what exactly, where the name does not say it: a path, a process.
        remedy: what to do about it.
    """

    name: str
    ok: bool
    value: Any
    threshold: Any
    limit: str = "equal"
    unit: str = ""
    subject: str = ""
    remedy: str = ""

    def asdict(self) -> dict[str, Any]:
        """As it travels."""
        return asdict(self)

    def reason(self) -> str:
        """The finding in one line for people."""
        subject = f" {self.subject}" if self.subject else ""
        value = self.value if self.value != "" else "nothing"
        text = f"{self.name}{subject}: {value} {self.unit}".rstrip()
        if self.threshold != "":
            text += f", wanted is {LIMITS[self.limit]}{self.threshold} {self.unit}".rstrip()
        return f"{text}: {self.remedy}" if self.remedy else text


def at_least(name: str, value: float, threshold: float, unit: str, **more: str) -> Check:
    """A number that must not be smaller."""
    return Check(name, value >= threshold, value, threshold, "least", unit, **more)


def at_most(name: str, value: float, threshold: float, unit: str, **more: str) -> Check:
    """A number that must not be larger."""
    return Check(name, value <= threshold, value, threshold, "most", unit, **more)


def equal(name: str, value: Any, threshold: Any, **more: str) -> Check:
    """A thing that must be this one."""
    return Check(name, value == threshold, value, threshold, **more)
