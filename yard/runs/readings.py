"""What a program of the user's own reports: numbers by name, which the trainer does not know."""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from yard.core.files import decoded_lines, read_end

# Keys that say where a line belongs; every other number is a value.
PLACE = ("step", "steps", "epoch", "epochs")
# Names beyond these limits, and what would follow the end of a long file's part, are left out.
MOST_KEYS = 64
KEY_CHARACTERS = 64
FILE_BYTES = 16 << 20
LINE_CHARACTERS = 64 << 10
# A program's "time" may be the seconds of a step: Unix seconds are past this one, of 2001.
EARLIEST = 1e9
# No step or epoch is beyond this.
MOST_COUNTED = 1e15

# Words in the names of what a training comes to; others say what it did or took.
_RESULT = re.compile(
    r"(?:^|[^a-z])(?:loss|acc|accuracy|err|error|perplexity|ppl|f1|auc|iou|map|bleu|rouge|reward"
    r"|score)(?:[^a-z]|$)"
)

Entry = tuple[str, float | None, float | None, float | None, float]


@dataclass(frozen=True)
class Reading:
    """One line of a program's metrics. No key is required.

    Attributes:
        time: Unix seconds of the node's clock.
        step, steps: steps done, and steps of the whole run.
        epoch, epochs: the same in epochs; a program may count parts of one.
        values: every other number of the line, by name, in its order.
        seconds_left: of the run, where the line itself tells its pace.
    """

    time: float | None = None
    step: float | None = None
    steps: float | None = None
    epoch: float | None = None
    epochs: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    seconds_left: float | None = field(default=None, compare=False)

    @classmethod
    def from_json(cls, line: Any) -> "Reading | None":
        """Build one from a decoded line; None where it has no number that can be shown."""
        if not isinstance(line, Mapping):
            return None
        numbers = {key: value for key, value in line.items() if _is_shown(key, value)}
        place = {key: numbers.pop(key) for key in PLACE if 0 <= numbers.get(key, -1) < MOST_COUNTED}
        moment = numbers.pop("time") if numbers.get("time", 0) > EARLIEST else None
        values = {key: float(numbers[key]) for key in list(numbers)[:MOST_KEYS]}
        return cls(moment, **place, values=values) if place or values else None

    @property
    def entries(self) -> frozenset[Entry]:
        """Each number with its place, by which a follower knows what it has had before."""
        named = {**self.values, **{key: getattr(self, key) for key in PLACE}}
        return frozenset(
            (key, self.step, self.epoch, self.time, value)
            for key, value in named.items()
            if value is not None
        )

    def without(self, seen: frozenset[Entry] | set[Entry]) -> "Reading | None":
        """What of the line is new; None where nothing is."""
        new = {key for key, *_ in self.entries - seen}
        if not new:
            return None
        values = {key: value for key, value in self.values.items() if key in new}
        return replace(self, values=values)

    def to_line(self) -> str:
        """The line as a program writes it, with its newline."""
        place = {"time": self.time, **{key: getattr(self, key) for key in PLACE}}
        known = {key: value for key, value in place.items() if value is not None}
        return json.dumps({**known, **self.values}) + "\n"


def known_readings(lines: Iterable[Any]) -> list[Reading]:
    """The readings among decoded lines, in order."""
    return [reading for line in lines if (reading := Reading.from_json(line)) is not None]


def read_readings(path: Path) -> tuple[Reading, ...]:
    """Read a metrics file, or the end of a long one; a missing file is empty."""
    lines = read_end(path, FILE_BYTES).splitlines()
    useful = "\n".join(line for line in lines if len(line) <= LINE_CHARACTERS)
    return within_limits(known_readings(decoded_lines(useful)))


def within_limits(readings: Iterable[Reading]) -> tuple[Reading, ...]:
    """The readings with no more names than can be shown: results, then those that came first."""
    readings = tuple(readings)
    names = dict.fromkeys(name for reading in readings for name in reading.values)
    if len(names) <= MOST_KEYS:
        return readings
    shown = set(sorted(names, key=_place)[:MOST_KEYS])
    return tuple(
        replace(each, values=values)
        for each in readings
        for values in [{key: value for key, value in each.values.items() if key in shown}]
    )


def last_values(readings: Iterable[Reading]) -> dict[str, float]:
    """The last value of each name: the loss, other results, and the rest, as they appeared."""
    values: dict[str, float] = {}
    for reading in readings:
        values.update(reading.values)
    return dict(sorted(values.items(), key=lambda entry: _place(entry[0])))


def _place(name: str) -> int:
    if name == "loss":
        return 0
    return 1 if _RESULT.search(name.lower()) else 2


def _is_shown(key: Any, value: Any) -> bool:
    """Whether it is a finite number with a name that fits on a screen."""
    return (
        isinstance(key, str)
        and 0 < len(key) <= KEY_CHARACTERS
        and key.isprintable()
        and isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max
    )
