"""What several trainings of one request came to: a row for each combination, over its seeds."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from yard.runs.summary import Summary


@dataclass(frozen=True)
class Measure:
    """Mean of a measure over seeds, and their standard deviation; None of a single one."""

    mean: float
    deviation: float | None


@dataclass(frozen=True)
class Row:
    """A combination of values.

    Attributes:
        label: what is its own, like `lr=0.001 batch=32`; empty where there are seeds alone.
        asked: how many runs it is to have, one a seed.
        runs: ids of those that succeeded.
        validation_accuracy, test_accuracy, final_loss, images_per_second: over them; None where a
            run has none.
    """

    label: str
    asked: int
    runs: tuple[str, ...]
    validation_accuracy: Measure | None
    test_accuracy: Measure | None
    final_loss: Measure | None
    images_per_second: Measure | None


MEASURES = ("validation_accuracy", "test_accuracy", "final_loss", "images_per_second")


def row_of(label: str, asked: int, summaries: Sequence[Summary]) -> Row:
    """The row of a combination; there may be no run of it that succeeded."""
    measures = {
        name: _measure([getattr(summary, name) for summary in summaries]) for name in MEASURES
    }
    return Row(label, asked, tuple(summary.run_id for summary in summaries), **measures)


def best_of(rows: Sequence[Row]) -> Row | None:
    """The one with the highest accuracy on the validation split; without one nothing is chosen."""
    known = {row: row.validation_accuracy.mean for row in rows if row.validation_accuracy}
    return max(known, key=known.__getitem__) if len(known) > 1 else None


def _measure(values: Sequence[float | None]) -> Measure | None:
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    deviation = statistics.stdev(known) if len(known) > 1 else None
    return Measure(statistics.mean(known), deviation)
