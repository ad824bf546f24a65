"""The lines of metrics that polls bring: which are new, and how they are shown."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from yard.runs.gathering import METRICS
from yard.runs.manifest import Manifest
from yard.runs.metrics import Metric, known_metrics, read_every_line
from yard.runs.readings import Reading, known_readings, read_readings
from yard.screen.training_view import ProgramView, TrainingView, View

Line = TypeVar("Line", Metric, Reading)


class Lines(ABC, Generic[Line]):
    """What a follower has had of a run's lines. A poll may bring a line again."""

    view: View[Line]

    @abstractmethod
    def take(self, answer: Mapping[str, Any], received_at: float) -> list[Line]:
        """The new lines of a poll's answer, in order."""

    @abstractmethod
    def has_step(self, lines: Iterable[Line]) -> bool:
        """Whether one of the lines says that a step is done."""


class TrainerLines(Lines[Metric]):
    """Lines of the trainer."""

    def __init__(self, path: Path) -> None:
        self.view = TrainingView()
        self._seen = {metric.key for metric in read_every_line(path)}

    def take(self, answer: Mapping[str, Any], received_at: float) -> list[Metric]:
        """See `Lines`."""
        new = [line for line in known_metrics(answer["metrics"]) if line.key not in self._seen]
        self._seen.update(line.key for line in new)
        return new

    def has_step(self, lines: Iterable[Metric]) -> bool:
        """See `Lines`."""
        return any(line.event == "step" for line in lines)


class ProgramLines(Lines[Reading]):
    """Lines of a program of the user's own."""

    view: ProgramView

    def __init__(self, path: Path) -> None:
        self.view = ProgramView()
        self._seen = {entry for reading in read_readings(path) for entry in reading.entries}

    def take(self, answer: Mapping[str, Any], received_at: float) -> list[Reading]:
        """See `Lines`. A program need not write any: that it runs is news of its own."""
        if answer.get("began"):
            self.view.begin(received_at)
        new = []
        for line in known_readings(answer["metrics"]):
            rest = line.without(self._seen)
            if rest is not None:
                self._seen |= rest.entries
                new.append(rest)
        return new

    def has_step(self, lines: Iterable[Reading]) -> bool:
        """See `Lines`."""
        return any(line.step is not None for line in lines)


def lines_of(run: Path, manifest: Manifest) -> Lines[Any]:
    """What there is of a run's lines when its following begins."""
    path = run / METRICS
    return TrainerLines(path) if manifest.project is None else ProgramLines(path)
