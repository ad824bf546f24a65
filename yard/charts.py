"""Curves of a run as SVG, drawn by matplotlib in colours that the page decides."""

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from yard.metrics import Metric, of_event

# Colours to be replaced by the page's CSS variables, so that one drawing serves light and dark.
INK, GRID, FIRST, SECOND, PAPER = "#010101", "#020202", "#030303", "#040404", "#050505"
VARIABLES = {INK: "--muted", GRID: "--grid", FIRST: "--first", SECOND: "--second", PAPER: "--card"}
# Size in CSS pixels; a drawing for each, so that text has the same size on a phone.
WIDE = (516, 264)
NARROW = (330, 232)
PIXELS_PER_INCH = 72  # matplotlib's SVG unit is the point
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.xmargin": 0.02,
    "grid.color": GRID,
    "grid.linewidth": 1,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.major.pad": 7,
    "ytick.major.pad": 6,
    "text.color": INK,
    "lines.linewidth": 2,
    "lines.solid_capstyle": "round",
    "lines.solid_joinstyle": "round",
}


@dataclass(frozen=True)
class Curve:
    """A named sequence of points.

    Attributes:
        colour: one of the keys of `VARIABLES`.
        dots: marks every point, where there are few of them.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    colour: str
    dots: bool = False


@dataclass(frozen=True)
class Chart:
    """A drawing ready for the page: one SVG for wide screens, one for narrow ones."""

    title: str
    caption: str
    legend: tuple[tuple[str, str], ...]
    wide: str
    narrow: str


def draw_charts(metrics: Sequence[Metric]) -> list[Chart]:
    """Draw what a run logged: loss, accuracy, throughput, learning rate.

    A chart without any point is left out.
    """
    steps, epochs = of_event(metrics, "step"), of_event(metrics, "epoch")
    percent = [
        _curve("test set", epochs, _accuracy, SECOND, dots=True, x=lambda metric: metric.epoch)
    ]
    candidates = [
        (
            "Loss",
            "by step",
            [
                _curve("training", steps, lambda metric: metric.loss, FIRST),
                _curve("test set", epochs, lambda metric: metric.loss, SECOND, dots=True),
            ],
            _plain,
        ),
        ("Test accuracy", "by epoch, in percent", percent, _plain),
        (
            "Throughput",
            "by step, images a second of all ranks",
            [_curve("images/s", steps, lambda metric: metric.images_per_second, FIRST)],
            _plain,
        ),
        (
            "Learning rate",
            "by step",
            [_curve("learning rate", steps, lambda metric: metric.lr, FIRST)],
            lambda value: f"{value:.3g}",
        ),
    ]
    charts = []
    for title, caption, curves, form in candidates:
        drawn = [curve for curve in curves if curve.x]
        if drawn:
            from_zero = title in ("Throughput", "Learning rate", "Test accuracy")
            charts.append(
                Chart(
                    title,
                    caption,
                    tuple((curve.label, VARIABLES[curve.colour]) for curve in drawn),
                    _draw(drawn, WIDE, form, from_zero, f"{title} wide"),
                    _draw(drawn, NARROW, form, from_zero, f"{title} narrow"),
                )
            )
    return charts


def _accuracy(metric: Metric) -> float | None:
    return None if metric.accuracy is None else 100 * metric.accuracy


def _plain(value: float) -> str:
    return f"{value:,.10g}"


def _curve(
    label: str,
    metrics: Sequence[Metric],
    y: Callable[[Metric], float | None],
    colour: str,
    dots: bool = False,
    x: Callable[[Metric], float] = lambda metric: metric.step,
) -> Curve:
    points = [(x(metric), value) for metric in metrics if (value := y(metric)) is not None]
    return Curve(label, tuple(p[0] for p in points), tuple(p[1] for p in points), colour, dots)


def _draw(
    curves: Sequence[Curve],
    size: tuple[int, int],
    form: Callable[[float], str],
    from_zero: bool,
    name: str,
) -> str:
    """Draw curves into one SVG of `size` CSS pixels; title and legend are the page's."""
    with rc_context(STYLE | {"svg.hashsalt": name}):  # type: ignore[arg-type]  # keys are literals there
        figure = Figure(
            figsize=(size[0] / PIXELS_PER_INCH, size[1] / PIXELS_PER_INCH), layout="constrained"
        )
        axes = figure.add_subplot()
        for curve in curves:
            marks = curve.dots or len(curve.x) == 1
            axes.plot(
                curve.x,
                curve.y,
                color=curve.colour,
                marker="o" if marks else "",
                markersize=7,
                markeredgecolor=PAPER,
                markeredgewidth=1.5,
                clip_on=False,
            )
        _scale(axes, form, from_zero)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return _for_page(out.getvalue(), name)


def _scale(axes: Axes, form: Callable[[float], str], from_zero: bool) -> None:
    if from_zero:
        axes.set_ylim(bottom=0, top=max(1.04 * axes.get_ylim()[1], 1e-12))
    left, right = axes.get_xlim()
    if right - left < 1:  # a single point: matplotlib would count 0.98, 0.99, 1.00, ...
        axes.set_xlim(left - 1, right + 1)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: form(value)))


def _for_page(svg: str, name: str) -> str:
    """Cut the drawing down to what goes inline into HTML, with colours as CSS variables."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(?::\w+)?="[^"]*"', "", svg)
    # Ids are unique in a page; matplotlib's are so only within a drawing.
    prefix = re.sub(r"\W+", "-", name.lower())
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = svg.replace('xlink:href="#', f'href="#{prefix}-').replace("url(#", f"url(#{prefix}-")
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    # The page's own font, at the size the drawing was laid out for.
    svg = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", svg)
    svg = re.sub(r"font-family: [^;\"]*;? ?", "", svg)
    return svg.replace("<svg ", '<svg aria-hidden="true" ', 1)
