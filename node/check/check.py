"""What a check of a node found: a value beside its threshold, and a code where it falls short.

Travels as a plain dictionary from the nodes to the verdict, which knows what to do about each code.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

# How a threshold is meant.
LIMITS = {"least": "at least ", "most": "at most ", "equal": ""}
# Thresholds that reason() leaves out: beside a value that differs they would say nothing more.
STATES = ("", "yes", "none", "open", "right", "answers", "an answer", "logs in", "start and end")


@dataclass(frozen=True)
class Check:
    """One finding.

    Attributes:
        name: what was looked at, like `disk`.
        limit: how the threshold is meant, a key of `LIMITS`.
        unit: of value and threshold, where they are numbers.
        subject: what exactly, where the name does not say it: a path, a process.
        code: the trouble; empty where the check is passed.
        values: what the remedy for that code is filled in with.
    """

    name: str
    ok: bool
    value: Any
    threshold: Any
    limit: str = "equal"
    unit: str = ""
    subject: str = ""
    code: str = ""
    values: dict[str, Any] = field(default_factory=dict)

    def asdict(self) -> dict[str, Any]:
        return asdict(self)

    def reason(self) -> str:
        """The finding in one line for people, without its remedy."""
        subject = f" {self.subject}" if self.subject else ""
        value = self.value if self.value != "" else "nothing"
        text = f"{self.name}{subject}: {value} {self.unit}".rstrip()
        if self.threshold not in STATES:
            text += f", should be {LIMITS[self.limit]}{self.threshold} {self.unit}".rstrip()
        return text


def check(
    name: str,
    ok: bool,
    value: Any,
    threshold: Any,
    code: str = "",
    limit: str = "equal",
    unit: str = "",
    /,
    subject: str = "",
    **values: Any,
) -> Check:
    """A check that has `code` and `values` where it is not passed; see `Check`."""
    if ok:
        return Check(name, ok, value, threshold, limit, unit, subject)
    return Check(name, ok, value, threshold, limit, unit, subject, code, values)


def at_least(
    name: str, value: float, threshold: float, unit: str, code: str = "", /, **more: Any
) -> Check:
    """A number that must not be smaller."""
    return check(name, value >= threshold, value, threshold, code, "least", unit, **more)


def at_most(
    name: str, value: float, threshold: float, unit: str, code: str = "", /, **more: Any
) -> Check:
    """A number that must not be larger."""
    return check(name, value <= threshold, value, threshold, code, "most", unit, **more)


def equal(name: str, value: Any, threshold: Any, code: str = "", /, **more: Any) -> Check:
    """A thing that must be this one."""
    return check(name, value == threshold, value, threshold, code, **more)
