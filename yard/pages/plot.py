"""What charts show, and their numbers as the page's script reads them. uPlot draws them."""

import sys
from array import array
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from yard.core.words import short_number

Point = tuple[float, float]
# What the numbers of an x axis are: a count (steps, epochs), or seconds shown as a clock.
Axis = Literal["count", "clock"]
# CSS variables of the page, in the order in which series take them.
COLOURS = tuple(f"--c{number}" for number in range(1, 9))
# From here on not every whole number has a value of its own among floats of 32 bits.
WHOLE_FLOATS = 2**24


@dataclass(frozen=True)
class Series:
    """A named sequence of points, ordered by x.

    Attributes:
        colour: name of a CSS variable.
        dots: marks every point, where there are few of them.
        faint: drawn as an aside: without an entry in the legend.
    """

    label: str
    points: tuple[Point, ...]
    colour: str = COLOURS[0]
    dots: bool = False
    faint: bool = False


@dataclass(frozen=True)
class Band:
    """The area between two sequences of y at the same x: the lowest and the highest."""

    points: tuple[tuple[float, float, float], ...]
    colour: str = COLOURS[0]


@dataclass(frozen=True)
class Mark:
    """A vertical line with a word beside it: something happened at this x."""

    x: float
    label: str


@dataclass(frozen=True)
class Chart:
    """What one drawing shows.

    Attributes:
        unit: of y; it stands above the axis.
        x_label: what x counts; it stands below the axis. Charts of a page where it is the same have
            one x axis, a clock's begins at 0.
        stacked: areas on top of each other; the series have the same x.
        from_zero: the y axis begins at 0.
        top: the y axis ends here at the least.
    """

    title: str
    unit: str
    x_label: str
    series: tuple[Series, ...]
    axis: Axis = "count"
    stacked: bool = False
    from_zero: bool = False
    top: float | None = None
    bands: tuple[Band, ...] = ()
    marks: tuple[Mark, ...] = ()
    note: str = ""

    @property
    def name(self) -> str:
        """The accessible name: what the chart shows, and how each series begins and ends."""
        ends = {
            one.label: (one.points[0][1], one.points[-1][1]) for one in self.series if one.points
        }
        spans = [
            f"{label} from {short_number(first)} to {short_number(last)}"
            for label, (first, last) in ends.items()
        ]
        return f"{self.title} in {self.unit} by {self.x_label}: {'; '.join(spans)}"


class Columns:
    """The numbers of a page's charts as JSON. An x that several series have is written once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def chart(self, chart: Chart) -> dict[str, Any]:
        """A chart for the page's script, which has to read the charts in the same order."""
        series = [
            self._series(one.points, label=one.label, colour=one.colour)
            | {"dots": one.dots, "faint": one.faint}
            for one in chart.series
            if one.points
        ]
        for band in chart.bands:
            for place, label in ((2, "highest"), (1, "lowest")):
                points = [(point[0], point[place]) for point in band.points]
                series.append(self._series(points, label=label, colour=band.colour, edge=True))
        return {
            "x": chart.x_label,
            "axis": chart.axis,
            "stacked": chart.stacked,
            "fromZero": chart.from_zero,
            "top": chart.top,
            "marks": [asdict(mark) for mark in chart.marks],
            "series": series,
        }

    def _series(self, points: Iterable[Point], **rest: Any) -> dict[str, Any]:
        xs, ys = zip(*points, strict=True)
        x = packed(xs)
        # The first that has this x brings it, the others name it by its number.
        known = self._numbers.get(x)
        if known is None:
            self._numbers[x] = len(self._numbers)
        return {"x": x if known is None else known, "y": packed(ys), **rest}


def packed(values: Iterable[float]) -> str:
    """Numbers as text: base64 of little-endian floats behind their kind, `f` (32 bits) or `d` (64).

    32 bits have seven digits, more than a chart shows; large whole numbers need 64.
    """
    column = array("d", values)
    if max(map(abs, column), default=0.0) < WHOLE_FLOATS:
        column = array("f", column)
    kind = column.typecode
    if sys.byteorder == "big":
        column.byteswap()
    return kind + b64encode(column.tobytes()).decode()
