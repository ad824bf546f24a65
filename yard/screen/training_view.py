"""The newest numbers of a run, and the words they come to."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from yard.core.words import clock, short_number
from yard.runs.metrics import Metric
from yard.runs.pace import seconds_left
from yard.runs.readings import Reading, last_values

Line = TypeVar("Line")
# From the first line of the metrics on: until then the ranks read their data and find each other.
TRAINING = "Training"
# What the screen calls the same of a program that may do anything.
RUNNING = "Running"
# More numbers than this do not fit into a line.
MOST_NUMBERS = 6


class View(ABC, Generic[Line]):
    """What is known of a run that goes on. There is one kind for each kind of lines.

    Attributes:
        phase: what the screen calls the time in which there are lines.
        waits_for: what the time before it is spent with.
    """

    phase: str
    waits_for: str

    @abstractmethod
    def update(self, line: Line, received_at: float) -> str | None:
        """Take in one line; they come in the program's order. Returns what of it is to stay."""

    @property
    @abstractmethod
    def has_begun(self) -> bool:
        """Whether there is anything to show."""

    @property
    @abstractmethod
    def extent(self) -> tuple[float, float] | None:
        """How much is done, and of how much, where both are known."""

    @abstractmethod
    def position(self, now: float) -> str:
        """Where the run is, like `step 40/469 · 1:23 left`; `now` in Unix seconds."""

    @abstractmethod
    def numbers(self) -> str:
        """How it goes, like `epoch 1/3 · loss 2.104`."""


@dataclass
class TrainingView(View[Metric]):
    """The newest numbers of the trainer, and the text they come to.

    `time_left` extrapolates from the mean time of a step so far, evaluation included.
    """

    phase = TRAINING
    waits_for = "waiting for the first step"

    start: Metric | None = None
    newest: Metric | None = None
    result: str = ""
    received_at: float = 0.0

    def update(self, line: Metric, received_at: float) -> str | None:
        """See `View`: an epoch stays."""
        if line.event == "start":
            self.start = line
        if line.event == "epoch":
            self.result = line.result
        if line.event == "step":
            self.newest = line
            self.received_at = received_at
        return epoch_line(line) if line.event == "epoch" else None

    @property
    def has_begun(self) -> bool:
        return self.newest is not None

    @property
    def extent(self) -> tuple[float, float] | None:
        return None if self.newest is None else (self.newest.step, self.newest.steps)

    def time_left(self, now: float) -> float | None:
        """Seconds until the last step; None until two steps have been seen."""
        if self.start is None or self.newest is None or self.newest.step < self.start.step + 2:
            return None
        begun, done = (self.start.step, self.start.time), (self.newest.step, self.newest.time)
        # The times are of the node's clock.
        return seconds_left(begun, done, self.newest.steps, done[1] + now - self.received_at)

    def position(self, now: float) -> str:
        if self.newest is None:
            return self.waits_for
        left = self.time_left(now)
        parts = [f"step {self.newest.step}/{self.newest.steps}"]
        if left is not None:
            parts.append(f"{clock(left)} left")
        return " · ".join(parts)

    def numbers(self) -> str:
        """How it goes: `epoch 2/3 · loss 2.104 · validation accuracy 38.1 % · 121 images/s`."""
        if self.newest is None:
            return ""
        parts = [f"epoch {self.newest.epoch}/{self.newest.epochs}"]
        if self.newest.loss is not None:
            parts.append(f"loss {self.newest.loss:.3f}")
        if self.result:
            parts.append(self.result)
        if self.newest.images_per_second is not None:
            parts.append(f"{self.newest.images_per_second:,.0f} images/s")
        return " · ".join(parts)


@dataclass
class ProgramView(View[Reading]):
    """The newest numbers of a program of the user's own, whichever it writes.

    Attributes:
        began_at: when the program was first seen to run, Unix seconds.
        newest: the last known step, steps, epoch and epochs.
    """

    phase = RUNNING
    waits_for = "waiting for the program to begin"

    began_at: float | None = None
    newest: dict[str, float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    _first: tuple[float, float] | None = None
    _last: tuple[float, float] | None = None
    _received_at: float = 0.0
    _left: tuple[float, float] | None = None

    def begin(self, moment: float) -> None:
        """Note that the program runs, whether it says so itself or not."""
        if self.began_at is None:
            self.began_at = moment

    def update(self, line: Reading, received_at: float) -> str | None:
        """See `View`: no line stays, because none is known to say more than another."""
        self.begin(received_at)
        # A bar of steps inside one of epochs knows nothing of these.
        knows = line.epoch is not None or "epochs" not in self.newest
        if line.seconds_left is not None and knows:
            self._left = (line.seconds_left, received_at)
        self.newest |= _place(line)
        self.values = last_values([Reading(values=self.values), line])
        if line.step is not None and (self._last is None or line.step != self._last[0]):
            before = self._last
            self._last = (line.step, received_at if line.time is None else line.time)
            if before is None or line.step < before[0]:
                self._first = self._last  # of this epoch: a bar has the steps of one
            self._received_at = received_at
        return None

    @property
    def has_begun(self) -> bool:
        return self.began_at is not None

    @property
    def extent(self) -> tuple[float, float] | None:
        step, steps = self.newest.get("step"), self.newest.get("steps")
        return None if step is None or not steps else (min(step, steps), steps)

    def time_left(self, now: float) -> float | None:
        """Seconds until the last step, by a bar or the steps seen; None until there were two."""
        if self._left is not None:
            return max(0.0, self._left[0] - (now - self._left[1]))
        if self.extent is None or self._first is None or self._last is None:
            return None
        node_now = self._last[1] + now - self._received_at
        return seconds_left(self._first, self._last, self.extent[1], node_now)

    def position(self, now: float) -> str:
        """See `View`; without steps how long it has run."""
        if self.began_at is None:
            return self.waits_for
        left = self.time_left(now)
        if "step" not in self.newest:
            return f"running for {clock(max(0.0, now - self.began_at))}"
        return " · ".join(
            [_of("step", self.newest), *([] if left is None else [f"{clock(left)} left"])]
        )

    def numbers(self) -> str:
        return _numbers(self.newest, self.values)


def epoch_line(metric: Metric) -> str:
    """What stays on the screen of an epoch."""
    parts = [f"epoch {metric.epoch}/{metric.epochs}"]
    if metric.loss is not None:
        parts.append(f"training loss {metric.loss:.3f}")
    if metric.validation_loss is not None:
        parts.append(f"validation loss {metric.validation_loss:.3f}")
    if metric.result:
        parts.append(metric.result)
    if metric.images_per_second is not None:
        parts.append(f"{metric.images_per_second:,.0f} images/s")
    return " · ".join(parts)


def progress_of(line: Metric | Reading | None) -> str:
    """How far a run is, by one line of its metrics; "" where there is none."""
    if line is None:
        return ""
    return training_position(line) if isinstance(line, Metric) else program_position(line)


def training_position(metric: Metric) -> str:
    """How far a training is, like `step 40/469 · epoch 1/3 · loss 2.104 · 121 images/s`."""
    position = f"step {metric.step}/{metric.steps}"
    if metric.event == "step":
        view = TrainingView()
        view.update(metric, time.time())
        return f"{position} · {view.numbers()}"
    position += f" · epoch {metric.epoch}/{metric.epochs}"
    if metric.result:
        position += f" · {metric.result}"
    return position


def program_position(reading: Reading) -> str:
    """How far a program is, by one line of its metrics."""
    place = _place(reading)
    step = [_of("step", place)] if "step" in place else []
    return " · ".join([*step, *filter(None, [_numbers(place, reading.values)])])


def _place(reading: Reading) -> dict[str, float]:
    place = {
        "step": reading.step,
        "steps": reading.steps,
        "epoch": reading.epoch,
        "epochs": reading.epochs,
    }
    return {name: number for name, number in place.items() if number is not None}


def _of(name: str, place: Mapping[str, Any]) -> str:
    whole = f"/{_count(place[f'{name}s'])}" if place.get(f"{name}s") else ""
    return f"{name} {_count(place[name])}{whole}"


def _count(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:.2f}"


def _numbers(place: Mapping[str, float], values: Mapping[str, float]) -> str:
    parts = [_of("epoch", place)] if "epoch" in place else []
    parts += [f"{name} {short_number(value)}" for name, value in values.items()][:MOST_NUMBERS]
    if len(values) > MOST_NUMBERS:
        parts.append(f"{len(values) - MOST_NUMBERS} more")
    return " · ".join(parts)
