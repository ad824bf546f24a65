"""How long a run still takes, by how fast it has been."""

import math
from collections.abc import Iterable
from itertools import pairwise

from yard.runs.metrics import Metric
from yard.runs.readings import Reading

# Steps done at this pace: the number of a step, and the moment at which it was done, Unix seconds.
Done = tuple[float, float]


def seconds_left(earlier: Done, newest: Done, steps: float, now: float) -> float | None:
    """Seconds until the last step; None where nothing was done between the two, or times are odd.

    Args:
        steps: of the whole run.
        now: the moment it is asked, of the same clock.
    """
    done, took = newest[0] - earlier[0], newest[1] - earlier[1]
    if done <= 0 or took <= 0:
        return None
    left = took / done * max(0.0, steps - newest[0]) - max(0.0, now - newest[1])
    return max(0.0, left) if math.isfinite(left) else None


def seconds_left_by(lines: Iterable[Metric | Reading], now: float) -> float | None:
    """The same by lines of a run's metrics; None where they do not say steps and times.

    Args:
        lines: of one attempt, in order; the first and the last with a step count.
        now: Unix seconds, of the clock of the lines.
    """
    done = [
        (line.step, line.time, line)
        for line in lines
        if line.step is not None and line.time is not None and line.steps
    ]
    if len(done) < 2:
        return None
    begin = done[0]
    for earlier, later in pairwise(done):
        if later[0] < earlier[0]:
            begin = later  # with another epoch, whose steps are counted anew
    (first, began_at, _), (newest, done_at, line) = begin, done[-1]
    steps = steps_to_go(line, by_epoch=begin is not done[0])
    return seconds_left((first, began_at), (newest, done_at), steps, now)


def steps_to_go(line: Metric | Reading, by_epoch: bool) -> float:
    """The number of the last step, as it would be counted in the epoch of a line.

    Args:
        by_epoch: whether steps are counted anew in each epoch.
    """
    steps = float(line.steps or 0)
    if by_epoch and line.epoch is not None and line.epochs is not None:
        steps *= max(1.0, line.epochs - line.epoch + 1)
    return steps
