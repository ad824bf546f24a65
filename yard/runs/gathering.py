"""Numbers of a program that writes none to `$TRAINYARD_METRICS`: from its log, from TensorBoard.

They are gathered into a file with lines like those of the metrics: while the run goes on from what
it prints, and once more from all that there is when it is over.
"""

import math
import re
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from yard.core.files import write_text
from yard.runs.bars import readings_of_bars
from yard.runs.folder import OUTPUTS
from yard.runs.output import take_log
from yard.runs.readings import FILE_BYTES, Reading, known_readings, read_readings, within_limits

# In the run directory, beside what the program wrote itself.
METRICS, GATHERED = "metrics.jsonl", "readings.jsonl"
# How long a pattern may search what a poll brings, and a whole log, in seconds: some patterns take
# longer than the run for a line that they nearly fit.
LIVE_SECONDS, WHOLE_SECONDS = 1.0, 20.0
# TensorBoard's files within a run, and how much of them is read.
EVENTS = "*tfevents*"
MOST_EVENT_FILES = 32
EVENT_FILE_BYTES = 64 << 20
MOST_EVENTS = 100_000


def gather_readings(run: Path, pattern: str | None) -> None:
    """Write down what a run's log and, without other numbers, its TensorBoard events say.

    Where there are none of these either, its progress bars are read.

    Args:
        pattern: regular expression; the names of its groups are those of the numbers.
    """
    log = run / "logs/rank-0.log"
    gathered = readings_of_log(log, pattern) if pattern else []
    if not gathered and not read_readings(run / METRICS):
        gathered = [reading for name in OUTPUTS for reading in readings_of_events(run / name)]
        gathered = gathered or readings_of_log(log, None)
    path = run / GATHERED
    if gathered:
        write_text(path, "".join(reading.to_line() for reading in gathered))
    else:
        path.unlink(missing_ok=True)


def all_readings(run: Path) -> tuple[Reading, ...]:
    """What a program wrote itself, and what was gathered."""
    return within_limits((*read_readings(run / METRICS), *read_readings(run / GATHERED)))


def readings_of_log(path: Path, pattern: str | None) -> list[Reading]:
    """The numbers in what a log says, see `LineReader`."""
    return LineReader(pattern, WHOLE_SECONDS).read(take_log(path, FILE_BYTES)[1])


class LineReader:
    """Finds numbers in lines that a program prints: by a pattern, or those of progress bars.

    Args:
        pattern: regular expression; None reads bars.
        seconds: how long one search may take.

    Attributes:
        gave_up: whether the pattern took longer: it is not searched for any more.
    """

    def __init__(self, pattern: str | None, seconds: float) -> None:
        self.gave_up = False
        self._seconds = seconds
        self._outer: Reading | None = None
        self._pattern = None
        self._reads_bars = pattern is None
        with suppress(re.error):  # an older yard took it; the request checks it
            self._pattern = None if pattern is None else re.compile(pattern)

    def read(self, lines: Iterable[str], now: float | None = None) -> list[Reading]:
        """The numbers of lines, a reading for each that has any; `now` as `readings_of_bars`."""
        if self._reads_bars:
            return list(map(self._placed, readings_of_bars(lines, now)))
        found: list[dict[str, Any]] = []
        if self._pattern is not None and not self.gave_up:
            try:
                with time_limit(self._seconds):
                    for line in lines:
                        groups = [match.groupdict() for match in self._pattern.finditer(line)]
                        found.append({k: v for each in groups for k, v in _numbers(each).items()})
            except TimeoutError:
                self.gave_up = True
        return known_readings(found)

    def _placed(self, bar: Reading) -> Reading:
        """A bar of steps that stands below one of epochs is of the epoch that is not done."""
        if bar.step is None:
            self._outer = bar
        elif bar.epoch is None and self._outer is not None and self._outer.epoch is not None:
            epochs = self._outer.epochs
            epoch = min(self._outer.epoch + 1, epochs or math.inf)
            return replace(bar, epoch=epoch, epochs=epochs)
        return bar


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Have what takes longer end with TimeoutError; only the main thread can be interrupted so.

    Python's `re` looks for signals while it searches.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


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
