"""The effective training time ratio: how much of a run's time its steps took.

The measure is that of arXiv 2509.16293 (ByteRobust), there for jobs of months: the time of the
steps that count over the time since the start.
"""

from collections.abc import Sequence
from itertools import pairwise

from yard.runs.metrics import Metric, of_event


def effective_training_time_ratio(
    metrics: Sequence[Metric], seconds_total: float | None
) -> float | None:
    """Time of the steps that count over the time of the whole run, 0 to 1.

    Waiting for nodes, starting, evaluating and bringing files home is no such time, and steps that
    an attempt did again after a failure count once.

    Args:
        metrics: the lines of one run, without those that came to nothing.
        seconds_total: from the start of the command until everything was collected.

    Returns:
        None where there is no step, none that was timed, or the end is not known.
    """
    steps = of_event(metrics, "step")
    if not steps or not seconds_total:
        return None
    # A line has the mean over the steps since the line before, or since its epoch began.
    useful = _seconds_per_step(steps[0]) + sum(
        (line.step - before.step) * _seconds_per_step(line)
        for before, line in pairwise(steps)
        if line.step > before.step
    )
    return round(min(useful / seconds_total, 1.0), 4) if useful else None


def _seconds_per_step(line: Metric) -> float:
    parts = (line.data_seconds, line.compute_seconds, line.communication_seconds)
    return sum(part for part in parts if part is not None and part > 0)
