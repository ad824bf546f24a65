"""Verifications of the cluster, and faults that are put into its nodes for them."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commands import RUNS, Outcome, make
from machines import in_machine


@dataclass(frozen=True)
class Verdict:
    """A verification: how the command ended, its files, and how long it took."""

    outcome: Outcome
    directory: Path
    document: dict[str, Any]
    seconds: float

    def causes(self, who: str) -> dict[str, str]:
        """What a node, or a pair, is blamed for: name of the check to reason."""
        return {
            cause["name"]: cause["reason"]
            for fault in self.document["faults"]
            if fault["who"] == who
            for cause in fault["causes"]
        }

    @property
    def blamed(self) -> set[str]:
        """Nodes and pairs that are blamed for anything."""
        return {fault["who"] for fault in self.document["faults"]}


def verify(checks: str) -> Verdict:
    before = set(RUNS.glob("verify-*"))
    began = time.monotonic()
    outcome = make("verify", CHECKS=checks)
    seconds = time.monotonic() - began
    (directory,) = set(RUNS.glob("verify-*")) - before
    document = json.loads((directory / "verdict.json").read_text())
    return Verdict(outcome, directory, document, seconds)


@dataclass(frozen=True)
class Fault:
    """A fault put into a node.

    Attributes:
        host: where.
        breaks, mends: shell commands on that node.
        checks: the part of the verification that is run.
        check: name of the check that must fail.
        says: what its reason must hold.
        blamed: the node or the pair that must be named, and nobody else: the host by default.
    """

    host: str
    breaks: str
    mends: str
    checks: str
    check: str
    says: str
    blamed: str = ""


@contextmanager
def broken(*faults: Fault) -> Iterator[None]:
    """Put faults in, and take out again those that are in, whatever happens."""
    with ExitStack() as mended:
        for fault in faults:
            in_machine(fault.host, fault.breaks)
            mended.callback(in_machine, fault.host, fault.mends)
        yield
