"""`verdict.json` and `nodes.json`: what role cluster_check found out about a cluster."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yard.core.files import read_json

VERDICT, HARDWARE = "verdict.json", "nodes.json"


@dataclass(frozen=True)
class Check:
    """What was found of a node, or of a pair of nodes.

    Attributes:
        where: the node, or both of the pair.
        value: a number in `unit`, or a text.
        limit: the threshold with its unit, for people; empty where a good value is equal to it.
    """

    name: str
    ok: bool
    where: tuple[str, ...]
    value: Any
    limit: str
    unit: str

    @property
    def of_a_pair(self) -> bool:
        """Whether it is about two nodes."""
        return len(self.where) == 2

    @property
    def number(self) -> float | None:
        """The value, where it is a number."""
        return self.value if isinstance(self.value, int | float) else None


@dataclass(frozen=True)
class Cause:
    """Why a node or a pair is at fault, and in how many checks it showed."""

    reason: str
    remedy: str
    times: int


@dataclass(frozen=True)
class Fault:
    """A node, a pair or the whole cluster that is at fault."""

    who: str
    causes: tuple[Cause, ...]


@dataclass(frozen=True)
class Note:
    """What is worth knowing of some nodes, and nobody's fault."""

    hosts: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Verdict:
    """The verdict on a cluster. schemas/verdict.schema.json says what each field is."""

    ok: bool
    began_at: float
    seconds: float
    hosts: tuple[str, ...]
    faults: tuple[Fault, ...]
    checks: tuple[Check, ...]
    bandwidth_gigabits: Sequence[Sequence[float | None]]
    latency_milliseconds: Sequence[Sequence[float | None]]
    allreduce: Sequence[Mapping[str, Any]]
    notes: tuple[Note, ...] = ()

    @classmethod
    def from_json(cls, document: Mapping[str, Any], told: Callable[[str], str] = str) -> "Verdict":
        """Build one from the decoded file; `told` makes what people read of a remedy.

        Raises:
            KeyError: a key is missing.
        """
        return cls(
            ok=document["ok"],
            began_at=document["began_at"],
            seconds=document["seconds"],
            hosts=tuple(document["hosts"]),
            faults=tuple(
                Fault(
                    fault["who"],
                    tuple(
                        Cause(cause["reason"], told(cause["remedy"]), cause["times"])
                        for cause in fault["causes"]
                    ),
                )
                for fault in document["faults"]
            ),
            checks=tuple(_check(entry) for entry in document["checks"]),
            bandwidth_gigabits=document["bandwidth_gigabits"],
            latency_milliseconds=document["latency_milliseconds"],
            allreduce=document.get("allreduce", ()),
            notes=tuple(
                Note(tuple(note["hosts"]), note["text"]) for note in document.get("notes", ())
            ),
        )


def read_verdict(directory: Path, told: Callable[[str], str] = str) -> Verdict | None:
    """Read the verdict of a verification; None while it has none."""
    document = read_json(directory / VERDICT)
    return None if document is None else Verdict.from_json(document, told)


def read_hardware(directory: Path) -> Mapping[str, Mapping[str, Any]]:
    """What each node is made of, as `roles/training_node` reports it; empty where nothing is."""
    nodes: Mapping[str, Mapping[str, Any]] = read_json(directory / HARDWARE) or {}
    return nodes


def _check(entry: Mapping[str, Any]) -> Check:
    return Check(
        name=entry["name"],
        ok=entry["ok"],
        where=tuple(entry["pair"]) if "pair" in entry else (entry["host"],),
        value=entry["value"],
        limit="" if entry["limit"] == "equal" else entry["threshold_text"],
        unit=entry["unit"],
    )
