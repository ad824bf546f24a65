"""The lines of `metrics.jsonl`."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Metric:
    """One line: `start`, `step`, `epoch` (after its evaluation) or `end`.

    Attributes:
        time: Unix seconds of the node's clock.
        step, steps: steps done, and steps of the whole run.
        epoch, epochs: the same in epochs, from 1.
        loss, accuracy: of the training images for `step`, of the test set for `epoch`;
            `end` has the training loss of the last epoch and the accuracy on the test set.
        images_per_second: of the whole world.
        lr: learning rate.
    """

    event: str
    time: float
    step: int
    steps: int
    epoch: int
    epochs: int
    loss: float | None
    accuracy: float | None
    images_per_second: float | None
    lr: float | None

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "Metric":
        """Build one from a decoded line.

        Raises:
            KeyError: a key is missing.
        """
        return cls(**{name: line[name] for name in cls.__dataclass_fields__})

    @property
    def key(self) -> tuple[str, int]:
        """What tells two lines apart: a poll may bring a line again."""
        return (self.event, self.step)

    def to_line(self) -> str:
        """The line as the trainer writes it, with its newline."""
        return json.dumps(asdict(self)) + "\n"


def read_metrics(path: Path) -> tuple[Metric, ...]:
    """Read a metrics file; a missing one is empty, and a line cut off by a crash is left out."""
    if not path.is_file():
        return ()
    metrics = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            metrics.append(Metric.from_json(json.loads(line)))
        except (ValueError, KeyError):
            continue  # only the last line of a killed run is cut off
    return tuple(metrics)


def of_event(metrics: Iterable[Metric], event: str) -> list[Metric]:
    """The lines of one kind, in order."""
    return [metric for metric in metrics if metric.event == event]
