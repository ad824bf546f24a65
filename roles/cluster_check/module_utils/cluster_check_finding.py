# Copyright Trainyard. Apache-2.0
"""A finding: one check of a node or of a pair, good or bad, and whose fault it is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ansible.module_utils.cluster_check_attribution import Pair
from ansible.module_utils.cluster_check_remedies import remedy
from ansible.module_utils.training_node.check.check import LIMITS, Check


@dataclass(frozen=True)
class CodedCheck:
    """A check that knows which trouble it is; made on a node, it travels as a dictionary.

    Attributes:
        check: name, value, threshold, and the remedy where it is not passed.
        code: the trouble; empty where the check is passed.
        values: what the remedy is filled in with.
    """

    check: Check
    code: str = ""
    values: dict[str, str] = field(default_factory=dict)

    def asdict(self) -> dict[str, Any]:
        """As it travels."""
        return {**self.check.asdict(), "code": self.code, "values": self.values}


def coded(check: Check, code: str, **values: str) -> CodedCheck:
    """A check with its remedy.

    Args:
        check: without a remedy, which the code tells.
        code: the trouble that it is where the check is not passed.
        values: of the code.
    """
    if check.ok:
        return CodedCheck(replace(check, remedy=""))
    return CodedCheck(replace(check, remedy=remedy(code, **values)), code, values)


@dataclass(frozen=True)
class Finding(CodedCheck):
    """A check of a node or of a pair; exactly one of `host` and `pair` is set.

    Attributes:
        host: the node that it is about.
        pair: two nodes, from the first to the second.
        because: who spoils it, a host or "a to b", where it is another finding's fault.
    """

    host: str | None = None
    pair: Pair | None = None
    because: str | None = None

    @property
    def name(self) -> str:
        """The name of the check."""
        return str(self.check.name)

    @property
    def ok(self) -> bool:
        """Whether the check is passed."""
        return bool(self.check.ok)

    @property
    def where(self) -> str:
        """The host, or the pair in words."""
        return self.host if self.host is not None else " to ".join(self.pair or ())

    @property
    def who(self) -> str:
        """Who stands behind a bad finding, a host or a pair."""
        return self.because or self.where

    @property
    def reason(self) -> str:
        """The finding in one line, without its remedy."""
        return str(replace(self.check, remedy="").reason())

    def asdict(self) -> dict[str, Any]:
        """As it stands in verdict.json."""
        where = {"host": self.host} if self.host is not None else {"pair": list(self.pair or ())}
        return {
            **super().asdict(),
            **where,
            "because": self.because,
            "code": self.code or None,
            "threshold_text": threshold_text(self.check),
        }


def threshold_text(check: Check) -> str:
    """A threshold for people, with its unit: `at least 10 GB free`."""
    number = isinstance(check.threshold, int | float)
    threshold = f"{check.threshold:g}" if number else str(check.threshold)
    return f"{LIMITS[check.limit]}{threshold} {check.unit}".strip()


def about_node(
    host: str, check: Check, code: str, because: str | None = None, **values: str
) -> Finding:
    """A finding about a node; other arguments as `coded`.

    Args:
        because: who spoils it.
    """
    own = coded(check, code, **values)
    spoiler = None if check.ok else because
    return Finding(own.check, own.code, own.values, host=host, because=spoiler)


def about_pair(pair: Pair, check: Check, code: str, because: str | None = None) -> Finding:
    """A finding about two nodes, which the remedy may name as {a} and {b}."""
    own = coded(check, code, a=pair[0], b=pair[1])
    spoiler = None if check.ok else because
    return Finding(own.check, own.code, own.values, pair=pair, because=spoiler)
