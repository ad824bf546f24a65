"""Numbers of a program that writes none to `$TRAINYARD_METRICS`: from its log, from TensorBoard.

They are gathered once, when the run is over, into a file with lines like those of the metrics.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from yard.core.files import write_text
from yard.runs.folder import OUTPUTS
from yard.runs.readings import (
    Reading,
    known_readings,
    read_readings,
    tail_lines,
    within_limits,
)

# In the run directory, beside what the program wrote itself.
METRICS, GATHERED = "metrics.jsonl", "readings.jsonl"
# More of a log's line than this is no line of numbers.
LOG_LINE_CHARACTERS = 2000
# TensorBoard's files within a run, and how much of them is read.
EVENTS = "*tfevents*"
MOST_EVENT_FILES = 32
EVENT_FILE_BYTES = 64 << 20
MOST_EVENTS = 100_000


def gather_readings(run: Path, pattern: str | None) -> None:
    """Write down what a run's log and, without other numbers, its TensorBoard events say.

    Args:
        pattern: regular expression; the names of its groups are those of the numbers.
    """
    gathered = readings_of_log(run / "logs/rank-0.log", pattern) if pattern else []
    if not gathered and not read_readings(run / METRICS):
        gathered = [reading for name in OUTPUTS for reading in readings_of_events(run / name)]
    path = run / GATHERED
    if gathered:
        write_text(path, "".join(reading.to_line() for reading in gathered))
    else:
        path.unlink(missing_ok=True)


def all_readings(run: Path) -> tuple[Reading, ...]:
    """What a program wrote itself, and what was gathered."""
    return within_limits((*read_readings(run / METRICS), *read_readings(run / GATHERED)))


def readings_of_log(path: Path, pattern: str) -> list[Reading]:
    """The numbers that a pattern finds in a log, a reading for each line with any."""
    try:
        searched = re.compile(pattern)
    except re.error:
        return []  # an older yard took it; the request checks it
    lines = []
    for text in tail_lines(path):
        found: dict[str, Any] = {}
        for match in searched.finditer(text[:LOG_LINE_CHARACTERS]):
            found |= _numbers(match.groupdict())
        lines.append(found)
    return known_readings(lines)


def readings_of_events(folder: Path) -> list[Reading]:
    """The scalars of TensorBoard's events below a folder, in order of time.

    The files are foreign: what cannot be read is left out.
    """
    files = [path for path in islice(folder.rglob(EVENTS), MOST_EVENT_FILES) if _is_plain(path)]
    if not files:
        return []
    events: list[tuple[float, int, str, float]] = []
    for path in sorted(files):
        # TensorBoard raises whatever its protocol buffers do on a damaged file.
        with suppress(Exception):
            events.extend(islice(_scalars(path), MOST_EVENTS))
    # A program writes its scalars of one step a moment apart: they become one reading.
    steps: dict[int, dict[str, Any]] = {}
    for moment, step, name, value in sorted(events)[:MOST_EVENTS]:
        steps.setdefault(step, {"time": moment, "step": step})[name] = value
    return list(within_limits(known_readings(steps.values())))


def _scalars(path: Path) -> Iterator[tuple[float, int, str, float]]:
    """Time, step, name and value of each scalar of a file."""
    # Takes a second to import, which only programs that write such files shall cost.
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util import tensor_util

    for event in EventFileLoader(str(path)).Load():
        for value in event.summary.value:
            numbers: Iterable[float] = ()
            if value.HasField("simple_value"):
                numbers = (value.simple_value,)
            elif value.HasField("tensor") and not value.tensor.tensor_shape.dim:
                with suppress(TypeError, ValueError):  # of text, say
                    numbers = (float(tensor_util.make_ndarray(value.tensor)),)
            for number in numbers:
                if math.isfinite(number) and math.isfinite(event.wall_time):
                    yield event.wall_time, event.step, value.tag, number


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size <= EVENT_FILE_BYTES


def _numbers(groups: Mapping[str, str | None]) -> dict[str, float]:
    numbers = {}
    for name, text in groups.items():
        with suppress(ValueError):
            numbers[name] = float((text or "").replace(",", ""))
    return {name: number for name, number in numbers.items() if math.isfinite(number)}
