"""The charts of a program of the user's own: one for each number that it reports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from yard.pages.plot import COLOURS, Chart, Point, Series
from yard.runs.readings import Reading, last_values

MOST_CHARTS = 24
# So few points are marked: two make a line that nobody sees the ends of.
FEW = 12


@dataclass(frozen=True)
class Curve:
    """The points of one number, in order of x; `x_label` says what x counts."""

    x_label: str
    points: tuple[Point, ...]


def reading_charts(readings: Sequence[Reading], retried: bool = False) -> list[Chart]:
    """A chart for each number, results first, then in the order in which they appeared.

    Args:
        retried: the run was launched more than once, so that steps may have been done again.
    """
    charts = []
    for name in list(last_values(readings))[:MOST_CHARTS]:
        curve = curve_of(readings, name, retried)
        series = Series(name, curve.points, dots=len(curve.points) <= FEW)
        charts.append(Chart(name, "value", curve.x_label, (series,)))
    return charts


def reading_comparison(runs: Mapping[str, Sequence[Reading]]) -> list[Chart]:
    """The same numbers of several runs; those that only one of them reported are left out.

    Args:
        runs: a label for each run, and its readings; at most as many as there are colours.
    """
    names = {label: last_values(readings) for label, readings in runs.items()}
    shared = [
        name
        for name in dict.fromkeys(name for values in names.values() for name in values)
        if sum(name in values for values in names.values()) > 1
    ]
    charts = []
    for name in shared[:MOST_CHARTS]:
        curves = {label: curve_of(readings, name) for label, readings in runs.items()}
        series = tuple(
            Series(label, curve.points, colour, dots=len(curve.points) <= FEW)
            for (label, curve), colour in zip(curves.items(), COLOURS, strict=False)
            if curve.points
        )
        counted = dict.fromkeys(curve.x_label for curve in curves.values() if curve.points)
        charts.append(Chart(name, "value", " or ".join(counted), series))
    return charts


def names_left_out(readings: Sequence[Reading]) -> list[str]:
    """The numbers for which there is no chart, because there are so many."""
    return list(last_values(readings))[MOST_CHARTS:]


def curve_of(readings: Sequence[Reading], name: str, retried: bool = False) -> Curve:
    """One number by step where its lines have one, else by epoch, else by the count of its lines.

    Steps that begin anew with every epoch are counted on. Those that were done again by another
    attempt take the place of what they came to before.
    """
    lines = [reading for reading in readings if name in reading.values]
    stepped = [line for line in lines if line.step is not None]
    within = [line for line in lines if line.epoch is not None]
    if stepped:
        placed = [(line.epoch or 0.0, line.step or 0.0, line.values[name]) for line in stepped]
    else:
        placed = [(line.epoch or 0.0, line.epoch or 0.0, line.values[name]) for line in within]
    if retried:
        placed = _without_superseded(placed)
    points = _in_order(placed)
    if points:
        return Curve("step" if stepped else "epoch", points)
    counted = ((float(number), line.values[name]) for number, line in enumerate(lines, start=1))
    return Curve("line", tuple(counted))


def _without_superseded(
    placed: Sequence[tuple[float, float, float]],
) -> list[tuple[float, float, float]]:
    kept: list[tuple[float, float, float]] = []
    for entry in placed:
        while kept and kept[-1][:2] >= entry[:2]:
            kept.pop()
        kept.append(entry)
    return kept


def _in_order(placed: Sequence[tuple[float, float, float]]) -> tuple[Point, ...]:
    """Points by x; none where x goes back without a new epoch that would tell why."""
    points: list[Point] = []
    offset = last_epoch = last_x = 0.0
    for epoch, x, value in placed:
        if x < last_x:
            if epoch <= last_epoch:
                return ()
            offset += last_x
        last_epoch, last_x = epoch, x
        points.append((offset + x, value))
    return tuple(points)
