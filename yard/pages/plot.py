"""Charts as SVG, in colours and type that the page decides; the page's script adds the hover."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Literal

from yard.core.words import clock

Point = tuple[float, float]
# What the numbers of an x axis are: a count (steps, epochs), or seconds shown as a clock.
Axis = Literal["count", "clock"]
# CSS variables of the page, in the order in which series take them.
COLOURS = tuple(f"--c{number}" for number in range(1, 9))
# Sizes in CSS pixels: one drawing for wide screens and one for phones, so that text has one size.
WIDE = (506, 256)
NARROW = (330, 240)
# More points than there are pixels only make the file large.
MAX_POINTS = 400
# Steps of an axis of seconds, from a second to a week.
CLOCK_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3600 * hours for hours in (1, 2, 3, 6, 12, 24, 48, 168)),
)
FONT_SIZE = 12
# About as many labels stand at the y axis.
Y_TICKS = 5
# Mean width of a digit at FONT_SIZE in the fonts of the page, in pixels, rounded up.
DIGIT = 7.4


@dataclass(frozen=True)
class Series:
    """A named sequence of points, ordered by x.

    Attributes:
        colour: name of a CSS variable.
        dots: marks every point, where there are few of them.
        faint: drawn as an aside: without an entry in legend and hover.
    """

    label: str
    points: tuple[Point, ...]
    colour: str = COLOURS[0]
    dots: bool = False
    faint: bool = False


@dataclass(frozen=True)
class Band:
    """The area between two sequences of y at the same x, like minimum and maximum."""

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
        x_label: what x counts; it stands below the axis.
        stacked: areas on top of each other; the series have the same x.
        from_zero: the y axis begins at 0.
        top: the y axis ends here at the least.
        span: the x axis reaches from here to here at the least, so that charts of one run agree.
        named: the legend is there even for a single series.
        note: a sentence below the chart.
    """

    title: str
    unit: str
    x_label: str
    series: tuple[Series, ...]
    axis: Axis = "count"
    stacked: bool = False
    from_zero: bool = False
    top: float | None = None
    span: tuple[float, float] | None = None
    named: bool = False
    bands: tuple[Band, ...] = ()
    marks: tuple[Mark, ...] = ()
    note: str = ""

    @property
    def legend(self) -> tuple[tuple[str, str], ...]:
        """Label and colour of every series; empty where there is nothing to tell apart."""
        named = tuple((series.label, series.colour) for series in self.series if not series.faint)
        return named if self.named or len(named) > 1 else ()

    @property
    def name(self) -> str:
        """The accessible name: what the chart shows, and how each series begins and ends."""
        spans = [
            f"{series.label} from {short(series.points[0][1])} to {short(series.points[-1][1])}"
            for series in self.series
            if series.points and not series.faint
        ]
        return f"{self.title} in {self.unit} by {self.x_label}: {'; '.join(spans)}"

    def hover(self) -> str:
        """The points as JSON, for the page's script."""
        shown = [
            {
                "label": series.label,
                "colour": series.colour,
                "points": [[_exact(x), _exact(y)] for x, y in series.points],
            }
            for series in _thinned(self)
            if not series.faint
        ]
        return json.dumps(
            {"x": self.x_label, "axis": self.axis, "stacked": self.stacked, "series": shown},
            separators=(",", ":"),
        )


def draw(chart: Chart, size: tuple[int, int]) -> str:
    """Draw a chart of `size` pixels; title, legend and hover are the page's."""
    frame = _Frame.around(chart, size)
    parts = [*_y_axis(chart, frame), *_x_axis(chart, frame)]
    for band in chart.bands:
        rows = band.points
        lower = [(x, low) for x, low, _ in rows]
        upper = [(x, high) for x, _, high in rows]
        path = frame.path([*upper, *reversed(lower)])
        parts.append(f'<path class="band" d="{path}Z" style="fill:var({band.colour})"/>')
    parts += _areas(chart, frame) if chart.stacked else _lines(chart, frame)
    parts += _marks(chart, frame)
    data = " ".join(f"{number:g}" for number in (*frame.box, *frame.x, *frame.y))
    return (
        f'<svg class="plot" viewBox="0 0 {size[0]} {size[1]}" role="img" tabindex="0" '
        f'aria-label="{escape(chart.name)}" data-frame="{data}">{"".join(parts)}</svg>'
    )


def spark(points: Sequence[Point], size: tuple[int, int] = (96, 24)) -> str:
    """Draw a bare line, for a table; empty without two points."""
    if len(points) < 2:
        return ""
    points = thin(points, 48)
    frame = _Frame((2, 2, size[0] - 2, size[1] - 2), _span(points, 0), _span(points, 1))
    return (
        f'<svg class="spark" viewBox="0 0 {size[0]} {size[1]}" aria-hidden="true">'
        f'<path class="line" d="{frame.path(points)}" style="stroke:var({COLOURS[0]})"/></svg>'
    )


def thin(points: Sequence[Point], most: int = MAX_POINTS) -> list[Point]:
    """Reduce points to about `most`, keeping the lowest and highest of every stretch."""
    if len(points) <= most:
        return list(points)
    stretch = math.ceil(2 * len(points) / most)
    kept = []
    for begin in range(0, len(points), stretch):
        part = points[begin : begin + stretch]
        low, high = min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])
        kept += sorted({low, high})
    # The ends are what a reader compares with the summary.
    return sorted({points[0], *kept, points[-1]})


def tick_step(low: float, high: float, most: int) -> float:
    """A round distance of which at most `most` lie between `low` and `high`."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers from `low` to `high`, at most `most` + 1 of them."""
    return _multiples(low, high, tick_step(low, high, most))


def clock_ticks(low: float, high: float, most: int) -> list[float]:
    """Round times from `low` to `high`, in seconds."""
    step = next((s for s in CLOCK_STEPS if (high - low) / s <= most), None)
    return ticks(low, high, most) if step is None else _multiples(low, high, step)


def short(value: float) -> str:
    """A number to four digits, as text: `2.345`, `12,346`, `1.5e-5`."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    mantissa, _, exponent = f"{value:.4g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


@dataclass(frozen=True)
class _Frame:
    """The plotting area.

    Attributes:
        box: left, top, right, bottom, in pixels.
        x, y: the ranges of the data.
        step: distance of two labels of the y axis.
    """

    box: tuple[float, float, float, float]
    x: tuple[float, float]
    y: tuple[float, float]
    step: float = 1.0

    @classmethod
    def around(cls, chart: Chart, size: tuple[int, int]) -> "_Frame":
        """Make room for the labels, and a little for the data."""
        series = _heaped(chart.series) if chart.stacked else chart.series
        points = [point for one in series for point in one.points]
        points += [(x, y) for band in chart.bands for x, *both in band.points for y in both]
        ends = [*points, *((x, 0.0) for x in chart.span or ())]
        x, (low, high) = _span(ends, 0), _span(points, 1)
        low, high = 0.0 if chart.from_zero else low, max(high, chart.top or high)
        # The axis begins and ends at a label, so that no curve is left without one beside it.
        step = tick_step(low, high, Y_TICKS)
        low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
        widest = max(len(text) for _, text in _y_labels((low, high), step))
        left = widest * DIGIT + 12
        top = 42 if chart.marks else 26  # the words of marks stand above the plot
        return cls((left, top, size[0] - 10, size[1] - 38), x, (low, high), step)

    def at(self, point: Point) -> tuple[float, float]:
        """Pixels of a point."""
        left, top, right, bottom = self.box
        x = left + (point[0] - self.x[0]) / (self.x[1] - self.x[0]) * (right - left)
        y = bottom - (point[1] - self.y[0]) / (self.y[1] - self.y[0]) * (bottom - top)
        return x, y

    def path(self, points: Iterable[Point]) -> str:
        """The `d` of a path along points."""
        return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in map(self.at, points))


def _y_axis(chart: Chart, frame: _Frame) -> list[str]:
    left, _, right, _ = frame.box
    parts = []
    for value, text in _y_labels(frame.y, frame.step):
        _, y = frame.at((frame.x[0], value))
        parts.append(f'<path class="grid" d="M{left:.1f} {y:.1f}H{right:.1f}"/>')
        parts.append(_text(left - 8, y + 4, text, "end"))
    parts.append(_text(0, 12, chart.unit, "start", "unit"))
    return parts


def _x_axis(chart: Chart, frame: _Frame) -> list[str]:
    left, _, right, bottom = frame.box
    most = max(2, int((right - left) // 60))
    if chart.axis == "clock":
        labels = [(value, clock(value)) for value in clock_ticks(*frame.x, most)]
    else:
        values = ticks(*frame.x, most)
        labels = [(value, f"{value:,.0f}") for value in values if value == round(value)]
    parts = [f'<path class="axis" d="M{left:.1f} {bottom:.1f}H{right:.1f}"/>']
    for value, text in labels:
        x, _ = frame.at((value, frame.y[0]))
        half = len(text) * DIGIT / 2
        anchor = "end" if x + half > right + 8 else "middle"
        parts.append(_text(min(x, right + 8), bottom + 17, text, anchor))
    parts.append(_text((left + right) / 2, bottom + 34, chart.x_label, "middle", "unit"))
    return parts


def _lines(chart: Chart, frame: _Frame) -> list[str]:
    parts = []
    for series in _thinned(chart):
        style = f'style="stroke:var({series.colour})"'
        kind = "line faint" if series.faint else "line"
        parts.append(f'<path class="{kind}" d="{frame.path(series.points)}" {style}/>')
        if series.dots or len(series.points) == 1:
            parts += [
                f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.5" '
                f'style="fill:var({series.colour})"/>'
                for x, y in map(frame.at, series.points)
            ]
    return parts


def _areas(chart: Chart, frame: _Frame) -> list[str]:
    parts = []
    heaped = _heaped(_thinned(chart))
    below = [(x, 0.0) for x, _ in heaped[0].points]
    for series in heaped:
        path = frame.path([*series.points, *reversed(below)])
        parts.append(f'<path class="area" d="{path}Z" style="fill:var({series.colour})"/>')
        below = list(series.points)
    return parts


def _marks(chart: Chart, frame: _Frame) -> list[str]:
    left, top, right, bottom = frame.box
    parts = []
    for mark in chart.marks:
        x, _ = frame.at((mark.x, frame.y[0]))
        if not left <= x <= right:
            continue
        anchor, shift = ("end", -5) if x > (left + right) / 2 else ("start", 5)
        parts.append(f'<path class="mark" d="M{x:.1f} {top - 15:.1f}V{bottom:.1f}"/>')
        parts.append(_text(x + shift, top - 6, mark.label, anchor, "mark"))
    return parts


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    name = f' class="{kind}"' if kind else ""
    return f'<text{name} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _thinned(chart: Chart) -> list[Series]:
    """The series with no more points than can be seen; stacked ones keep the same x."""
    stride = max(1, math.ceil(max(len(one.points) for one in chart.series) / MAX_POINTS))
    return [
        replace(one, points=one.points[::stride] if chart.stacked else tuple(thin(one.points)))
        for one in chart.series
        if one.points
    ]


def _heaped(series: Sequence[Series]) -> list[Series]:
    """Series whose y are the sums up to and including each."""
    sums = [0.0] * len(series[0].points)
    heaped = []
    for one in series:
        sums = [below + y for below, (_, y) in zip(sums, one.points, strict=True)]
        points = tuple((x, total) for (x, _), total in zip(one.points, sums, strict=True))
        heaped.append(replace(one, points=points))
    return heaped


def _y_labels(y: tuple[float, float], step: float) -> list[tuple[float, str]]:
    """Places of the y axis with their texts, all written alike."""
    values = _multiples(*y, step)
    if max(abs(value) for value in values) < 1e-2:
        return [(value, short(value)) for value in values]
    digits = 0
    while digits < 6 and abs(round(step, digits) - step) > 1e-9:
        digits += 1
    return [(value, f"{value:,.{digits}f}") for value in values]


def _multiples(low: float, high: float, step: float) -> list[float]:
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _span(points: Sequence[Sequence[float]], index: int) -> tuple[float, float]:
    """Lowest and highest coordinate; a range of nothing gets a width."""
    values = [point[index] for point in points] or [0.0]
    low, high = min(values), max(values)
    around = abs(low) / 10 or 1.0
    return (low, high) if high > low else (low - around, high + around)


def _exact(value: Any) -> float:
    """A number with as many digits as the hover can show."""
    return float(f"{value:.7g}")
