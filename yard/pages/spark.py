"""Small curves inside tables, as SVG."""

import math
from collections.abc import Sequence

from yard.pages.plot import COLOURS, Point

# In CSS pixels, with a margin for the width of the line.
SIZE, MARGIN = (96, 24), 2
# A point for every second pixel.
MOST_POINTS = 48


def spark(points: Sequence[Point], span: tuple[float, float] | None = None) -> str:
    """Draw a bare line through points ordered by x; empty without two of them.

    Args:
        span: the lowest and the highest y that there is room for; None for those of the points.
    """
    if len(points) < 2:
        return ""
    points = thin(points, MOST_POINTS)
    xs, ys = zip(*points, strict=True)
    places = zip(_placed(xs, SIZE[0]), _placed(ys, SIZE[1], span), strict=True)
    path = "L".join(f"{x:.1f} {SIZE[1] - y:.1f}" for x, y in places)
    return (
        f'<svg class="spark" viewBox="0 0 {SIZE[0]} {SIZE[1]}" aria-hidden="true">'
        f'<path d="M{path}" style="stroke:var({COLOURS[0]})"/></svg>'
    )


def thin(points: Sequence[Point], most: int) -> list[Point]:
    """Reduce points to about `most`, keeping the lowest and highest of every stretch."""
    if len(points) <= most:
        return list(points)
    stretch = math.ceil(2 * len(points) / most)
    kept = []
    for begin in range(0, len(points), stretch):
        part = points[begin : begin + stretch]
        kept += sorted({min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])})
    return kept


def _placed(
    values: Sequence[float], length: int, span: tuple[float, float] | None = None
) -> list[float]:
    """Values spread over a length without its margins; equal ones in the middle."""
    low, high = span or (min(values), max(values))
    inner = length - 2 * MARGIN
    return [
        MARGIN + inner * ((value - low) / (high - low) if high > low else 0.5) for value in values
    ]
