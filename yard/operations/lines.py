"""What polls bring of a run: which lines of metrics are new, what it prints, how that is shown."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from yard.runs.gathering import LIVE_SECONDS, METRICS, LineReader
from yard.runs.manifest import Manifest
from yard.runs.metrics import Metric, known_metrics, read_every_line
from yard.runs.output import Output
from yard.runs.readings import Reading, known_readings, read_readings
from yard.runs.record import FIRST_LINE
from yard.screen.training_view import ProgramView, TrainingView, View

Line = TypeVar("Line", Metric, Reading)


@dataclass(frozen=True)
class Printed:
    """What a program has printed since the poll before.

    Attributes:
        rows: that may still be drawn again.
        readings: numbers in its lines.
        trouble: what is to be said of the search for numbers, once.
    """

    lines: Sequence[str] = ()
    rows: Sequence[str] = ()
    readings: Sequence[Reading] = ()
    trouble: str = ""


class Lines(ABC, Generic[Line]):
    """What a follower has had of a run's lines. A poll may bring a line again."""

    view: View[Line]

    @abstractmethod
    def take(self, answer: Mapping[str, Any], received_at: float) -> list[Line]:
        """The new lines of a poll's answer, in order."""

    @abstractmethod
    def has_step(self, lines: Iterable[Line]) -> bool:
        """Whether one of the lines says that a step is done."""

    def listen(self, answer: Mapping[str, Any], received_at: float) -> Printed:
        """What a poll brings of the program's output; of the trainer the screen shows none."""
        return Printed()

    @property
    def tail(self) -> Sequence[str]:
        """The last lines of the output."""
        return ()


class TrainerLines(Lines[Metric]):
    def __init__(self, path: Path) -> None:
        self.view = TrainingView()
        self._seen = {metric.key for metric in read_every_line(path)}

    def take(self, answer: Mapping[str, Any], received_at: float) -> list[Metric]:
        new = [line for line in known_metrics(answer["metrics"]) if line.key not in self._seen]
        self._seen.update(line.key for line in new)
        return new

    def has_step(self, lines: Iterable[Metric]) -> bool:
        return any(line.event == "step" for line in lines)


class ProgramLines(Lines[Reading]):
    """Lines of a program of the user's own."""

    view: ProgramView

    def __init__(self, path: Path, pattern: str | None = None) -> None:
        """Begin with what there is already.

        Args:
            pattern: for numbers in what the program prints, see `yard.code.settings`.
        """
        self.view = ProgramView()
        self._output = Output()
        self._reader = LineReader(pattern, LIVE_SECONDS)
        self._reads_bars = pattern is None
        self._bars: set[str] = set()
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
        return any(line.step is not None for line in lines)

    def listen(self, answer: Mapping[str, Any], received_at: float) -> Printed:
        """See `Lines`. Bars are read where the program reports no numbers itself."""
        output = answer.get("output") or {"offset": self._output.end, "text": ""}
        is_first = self._output.end == 0 and output["offset"] == 0
        lines, said = self._output.take(output["offset"], output["text"])
        self._output.end = int(answer.get("log_offset", self._output.end))
        if is_first and lines and FIRST_LINE.match(lines[0]):
            # It is the launcher's, and of the program the screen shows what it prints itself.
            lines, said = lines[1:], said[1:]
        rows: Sequence[str] = [row for row in self._output.rows if row]
        if answer.get("exit_status") is not None:
            rest = self._output.finish()
            lines, said, rows = [*lines, *rest], [*said, *rest], ()
        readings: list[Reading] = []
        if not self._reads_bars or not self._seen:
            gave_up = self._reader.gave_up
            if self._reads_bars:
                # A bar is read while it stands there, and not again when it is drawn anew.
                said = [line for line in (*said, *rows) if line not in self._bars]
                self._bars = set(rows)
            readings = self._reader.read(said, received_at)
            if self._reader.gave_up and not gave_up:
                trouble = f"the pattern `metrics:` took longer than {LIVE_SECONDS:g} s"
                return Printed(lines, rows, readings, f"{trouble}; it is no longer applied")
        return Printed(lines, rows, readings)

    @property
    def tail(self) -> Sequence[str]:
        return [*self._output.tail, *(row for row in self._output.rows if row)]


def lines_of(run: Path, manifest: Manifest) -> Lines[Any]:
    """What there is of a run's lines when its following begins."""
    path = run / METRICS
    if manifest.project is None:
        return TrainerLines(path)
    return ProgramLines(path, manifest.project.get("metrics_pattern"))
