"""What a GPU day has shown: results by step, kept as JSON and as a document for people."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

# How a step ended.
PASSED, FAILED, LEFT_OUT = "passed", "failed", "left out"
# Where a figure was got.
CONTAINER, STRAIGHT, MACHINE = "container", "straight", "machine"
WAYS = {
    CONTAINER: "in the trainer image, with the engine and NVIDIA's container toolkit",
    STRAIGHT: "the trainer of this checkout, with the torch that the machine has, without an image",
    MACHINE: "on the machine itself",
}

Figure = str | int | float


@dataclass
class Result:
    """What a step came to.

    Attributes:
        name: of the step.
        title: what it shows, for people.
        outcome: PASSED, FAILED or LEFT_OUT.
        reason: why it failed or was left out; of one that passed, what must be known beside it.
        way: a key of `WAYS`; empty of a step that was left out.
        seconds: how long it took.
        ended_at: ISO 8601, UTC.
        figures: by name, with the unit in the name.
        output: the end of what its last command printed, of a step that failed.
    """

    name: str
    title: str
    outcome: str
    reason: str = ""
    way: str = ""
    seconds: float = 0.0
    ended_at: str = ""
    figures: dict[str, Figure] = field(default_factory=dict)
    output: str = ""


@dataclass
class Record:
    """All results of a day, the newest of each step.

    Attributes:
        machine: facts of the machine and its software, by name.
        stand_in: whether a processor stood in for the GPU, so that no figure is of a GPU.
        results: by name of step.
    """

    machine: dict[str, str]
    stand_in: bool = False
    results: dict[str, Result] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what `write` wrote."""
        document = json.loads(path.read_text(encoding="utf-8"))
        results = {entry["name"]: Result(**entry) for entry in document["results"]}
        return cls(document["machine"], document["stand_in"], results)

    def write(self, path: Path) -> None:
        """Write it anew; a machine that stops meanwhile leaves the older one."""
        document = {**asdict(self), "results": [asdict(each) for each in self.results.values()]}
        scratch = path.with_name(f".{path.name}")
        scratch.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        os.replace(scratch, path)

    def add(self, result: Result, order: Sequence[str]) -> None:
        """Put a result in the place of the one that its step had.

        Args:
            order: names of all steps, as results are shown.
        """
        result.ended_at = datetime.now(UTC).isoformat(timespec="seconds")
        results = {**self.results, result.name: result}
        self.results = {name: results[name] for name in order if name in results}

    def count(self, outcome: str) -> int:
        """How many steps ended so."""
        return sum(result.outcome == outcome for result in self.results.values())

    def figure(self, name: str) -> float | None:
        """A number that some step has measured; None where none has."""
        for result in self.results.values():
            value = result.figures.get(name)
            if isinstance(value, int | float):
                return float(value)
        return None

    def document(self) -> str:
        """The record in Markdown."""
        counts = ", ".join(f"{self.count(word)} {word}" for word in (PASSED, FAILED, LEFT_OUT))
        lines = ["# What a GPU showed", "", f"Written by `make gpu-day`. Steps: {counts}.", ""]
        if self.stand_in:
            lines += [
                "**A processor stood in for the GPU, and one small model for all others: this is "
                "a test of the steps, and no figure here is one of a GPU.**",
                "",
            ]
        lines += _table(("machine", ""), [(name, text) for name, text in self.machine.items()])
        used = {result.way for result in self.results.values()} - {""}
        lines += ["How the figures were got:", ""]
        lines += [f"- *{way}*: {text}." for way, text in WAYS.items() if way in used]
        rows = [
            (
                result.title,
                f"**{result.outcome}**" if result.outcome == FAILED else result.outcome,
                result.way or "-",
                f"{result.seconds:.0f} s" if result.way else "-",
                result.ended_at,
                result.reason or "-",
            )
            for result in self.results.values()
        ]
        lines += ["", "## Steps", ""]
        lines += _table(("step", "outcome", "how", "took", "ended (UTC)", "beside it"), rows)
        lines += ["## Figures", ""]
        lines += _table(
            ("step", "figure", "value"),
            [
                (result.title, name, shown(value))
                for result in self.results.values()
                for name, value in result.figures.items()
            ],
        )
        for result in self.results.values():
            if result.output:
                lines += [f"## Output of the step that failed: {result.title}", ""]
                lines += ["```", result.output.replace("```", "'''"), "```", ""]
        return "\n".join(lines).rstrip() + "\n"


def shown(value: Figure) -> str:
    """A figure as people read it: four digits that count, thousands with commas."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else value


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    cells = [head, ("---",) * len(head), *rows]
    return [f"| {' | '.join(map(_cell, row))} |" for row in cells] + [""]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def merged(record: Record, path: Path) -> tuple[Record, str]:
    """Take over what an earlier call wrote about the same machine.

    One of another machine is kept beside it under another name, for nothing is lost.

    Returns:
        The record to go on with, and what happened to the earlier one; empty where there was none.
    """
    if not path.exists():
        return record, ""
    earlier = Record.read(path)
    if (earlier.machine, earlier.stand_in) == (record.machine, record.stand_in):
        return earlier, f"{path} has {len(earlier.results)} results of this machine; they stay"
    aside = path.with_name(f"{path.stem}-{datetime.now(UTC):%Y%m%d-%H%M%S}{path.suffix}")
    path.rename(aside)
    return record, f"{path} was of another machine, or of another way: it is {aside.name} now"


def facts(values: Mapping[str, Any]) -> dict[str, str]:
    """Facts as text, without those that are not known."""
    return {name: str(value) for name, value in values.items() if value not in (None, "")}
