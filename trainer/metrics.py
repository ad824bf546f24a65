"""The run's measurements, a JSON object per line of `metrics.jsonl`.

schemas/metrics.schema.json in the repository describes the lines.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Event = Literal["start", "step", "epoch", "end"]


@dataclass(frozen=True)
class Position:
    """How far the run is."""

    step: int
    steps: int
    epoch: int
    epochs: int
    images: int


@dataclass(frozen=True)
class SecondsPerStep:
    """Where the time of a step went, a mean over several."""

    data_seconds: float
    compute_seconds: float
    communication_seconds: float


@dataclass(frozen=True)
class MetricsLine:
    """A line of `metrics.jsonl`; the keys of `results` say of which split each is."""

    event: Event
    time: float
    position: Position
    loss: float | None = None
    accuracy: float | None = None
    images_per_second: float | None = None
    lr: float | None = None
    seconds_per_step: SecondsPerStep | None = None
    results: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The line's JSON object; every line has the same keys but for times and results."""
        return {
            "event": self.event,
            "time": self.time,
            **asdict(self.position),
            "loss": self.loss,
            "accuracy": self.accuracy,
            "images_per_second": self.images_per_second,
            "lr": self.lr,
            **(asdict(self.seconds_per_step) if self.seconds_per_step else {}),
            **self.results,
        }


def class_accuracies(results: Mapping[str, Any]) -> dict[str, float]:
    """Of each class that the test set has, the fraction of its images that were right."""
    rows = zip(results.get("classes", ()), results.get("test_confusion", ()), strict=True)
    return {name: row[n] / sum(row) for n, (name, row) in enumerate(rows) if sum(row)}


Listener = Callable[[MetricsLine], None]


class MetricsWriter:
    """Appends lines to a file. Each is on its way to readers when `write` returns.

    A resumed run goes on in the file of the run it resumes, where there is one.

    Args:
        notes: what the line of `start` has beside the others.
    """

    def __init__(
        self,
        path: Path,
        listeners: Sequence[Listener] = (),
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        self._listeners, self._notes = listeners, notes
        # Line buffered: a reader never sees half a line, and a killed run loses none.
        self._stream = path.open("a", encoding="utf-8", buffering=1)

    def close(self) -> None:
        self._stream.close()

    def write(
        self,
        event: Event,
        position: Position,
        *,
        loss: float | None = None,
        accuracy: float | None = None,
        images_per_second: float | None = None,
        learning_rate: float | None = None,
        seconds_per_step: SecondsPerStep | None = None,
        results: Mapping[str, Any] | None = None,
    ) -> None:
        """Append a line with the time of now; `MetricsLine` says what the values are."""
        line = MetricsLine(
            event,
            time.time(),
            position,
            loss,
            accuracy,
            images_per_second,
            learning_rate,
            seconds_per_step,
            (self._notes if event == "start" else results) or {},
        )
        self._stream.write(json.dumps(line.to_json()) + "\n")
        for listener in self._listeners:
            listener(line)
