"""The charts of a run, and those that compare several."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from yard.pages.plot import COLOURS, Band, Chart, Mark, Point, Series
from yard.runs.metrics import Metric, attempts_of, of_event, resumed_at
from yard.runs.utilisation import Gpu, Sample

Value = Callable[[Metric], float | None]
# More lines than this in one chart cannot be told apart: mean and range take their place.
MOST_LINES = len(COLOURS)
GIB = 2**30


def training_charts(metrics: Sequence[Metric]) -> list[Chart]:
    """How the training went: loss, accuracy, throughput and learning rate by step.

    Retries stand as marks on the one axis of steps. What an attempt did after the checkpoint that
    the next one went on from was done again; it is drawn faintly. A chart without any point is
    left out.
    """
    steps, lost_steps = _continued(metrics, "step")
    epochs, _ = _continued(metrics, "epoch")
    ends, _ = _continued(metrics, "end")
    tested = [metric for metric in epochs if metric.test_accuracy is not None] or ends
    marks = retry_marks(metrics)

    def line(label: str, name: str) -> list[Series]:
        value = _value(name)
        lost = [
            Series(label, points, COLOURS[0], faint=True)
            for part in lost_steps
            if (points := _points(part, value))
        ]
        return [*lost, Series(label, _points(steps, value), COLOURS[0])]

    def dots(kind: str) -> list[Series]:
        """The validation split, and the test set: at the end, of older runs after each epoch."""
        drawn = [
            Series(label, _points(lines, _value(f"{split}_{kind}")), colour, dots=True)
            for label, split, lines, colour in (
                ("validation", "validation", epochs, COLOURS[1]),
                ("test set", "test", tested, COLOURS[2]),
            )
        ]
        return [series for series in drawn if series.points]

    tables = [
        ("Loss", "cross entropy", [*line("training", "loss"), *dots("loss")], False),
        ("Accuracy", "%", [*line("training", "accuracy"), *dots("accuracy")], True),
        ("Throughput", "images/s, all ranks", line("images/s", "images_per_second"), True),
        ("Learning rate", "rate", line("learning rate", "lr"), True),
    ]
    return _with_points(
        Chart(title, unit, "step", tuple(series), from_zero=from_zero, marks=marks)
        for title, unit, series, from_zero in tables
    )


def step_time_chart(metrics: Sequence[Metric]) -> list[Chart]:
    """What a step's time goes into, in milliseconds; nothing where it was not measured."""
    steps, _ = _continued(metrics, "step")
    values = {name: _value(f"{name}_seconds") for name in ("compute", "communication", "data")}
    # The first step warms up caches and connections: it would press all others flat.
    timed = [
        m for m in steps if m.step > 1 and any(value(m) is not None for value in values.values())
    ]
    if not timed:
        return []
    parts = {name: [value(metric) or 0.0 for metric in timed] for name, value in values.items()}
    total = sum(map(sum, parts.values())) or 1.0
    series = tuple(
        Series(
            f"{label} {_share(sum(values) / total)}",
            tuple((metric.step, value) for metric, value in zip(timed, values, strict=True)),
            colour,
        )
        for (label, values), colour in zip(parts.items(), COLOURS, strict=False)
    )
    note = "On rank 0; communication is the time it was blocked in the exchange of gradients."
    return [
        Chart(
            "Step time",
            "ms a step",
            "step",
            series,
            stacked=True,
            from_zero=True,
            marks=retry_marks(metrics),
            note=note,
        )
    ]


def node_charts(
    hosts: Mapping[str, Sequence[Sample]], began_at: float, marks: tuple[Mark, ...] = ()
) -> list[Chart]:
    """How busy the nodes were, by time since `began_at` (Unix seconds); GPUs where there are."""

    def by_host(value: Callable[[Sample], float | None]) -> dict[str, tuple[Point, ...]]:
        return {
            host: _sampled((sample.time - began_at, value(sample)) for sample in samples)
            for host, samples in hosts.items()
        }

    def by_gpu(value: Callable[[Gpu], float | None]) -> dict[str, tuple[Point, ...]]:
        lines: dict[str, list[tuple[float, float | None]]] = {}
        for host, samples in hosts.items():
            for sample in samples:
                for gpu in sample.gpus:
                    point = (sample.time - began_at, value(gpu))
                    lines.setdefault(f"{host} GPU {gpu.index}", []).append(point)
        return {label: _sampled(points) for label, points in lines.items()}

    ranks: dict[str, list[tuple[float, float | None]]] = {}
    for samples in hosts.values():
        for sample in samples:
            for rank, size in sample.rss_bytes.items():
                ranks.setdefault(f"rank {rank}", []).append((sample.time - began_at, size / GIB))
    resident = {
        label: _sampled(points)
        for label, points in sorted(ranks.items(), key=lambda entry: int(entry[0][5:]))
    }
    percent, memory = "% of the cores", "GiB in use"
    tables = [
        ("CPU", percent, by_host(lambda sample: sample.cpu_percent), 100.0),
        ("Memory of the nodes", memory, by_host(lambda s: _gib(s.memory_bytes)), None),
        ("Memory of the ranks", "GiB resident", resident, None),
        ("GPU", "% busy", by_gpu(lambda gpu: gpu.utilisation_percent), 100.0),
        ("GPU memory", memory, by_gpu(lambda gpu: _gib(gpu.memory_bytes)), None),
        ("GPU power", "W", by_gpu(lambda gpu: gpu.power_watts), None),
        ("GPU temperature", "°C", by_gpu(lambda gpu: gpu.temperature_celsius), None),
    ]
    charts = []
    for title, unit, lines, top in tables:
        lines = {label: points for label, points in lines.items() if points}
        series, bands = _lines_or_range(lines)
        charts.append(
            Chart(
                title,
                unit,
                "time since the command",
                series,
                axis="clock",
                from_zero=True,
                top=top,
                bands=bands,
                marks=marks,
                note=f"Mean of {len(lines)}; the band goes from lowest to highest."
                if bands
                else "",
            )
        )
    return _with_points(charts)


def comparison_charts(runs: Mapping[str, Sequence[Metric]]) -> list[Chart]:
    """The same curves of several runs; the x axes are epochs and time, which they share.

    Args:
        runs: a label for each run, and its lines; at most as many as there are colours.
    """
    colours = dict(zip(runs, COLOURS, strict=False))

    def series(event: str, value: Value, timed: bool = False) -> tuple[Series, ...]:
        drawn = []
        for label, metrics in runs.items():
            lines, _ = _continued(metrics, event)
            began = metrics[0].time if metrics else 0.0
            points = _sampled(
                (metric.time - began if timed else _epoch(metric), value(metric))
                for metric in lines
            )
            drawn.append(Series(label, points, colours[label], dots=event == "epoch"))
        return tuple(drawn)

    charts = [
        Chart("Training loss", "cross entropy", "epoch", series("step", _value("loss"))),
        Chart("Validation accuracy", "%", "epoch", series("epoch", _held_out), from_zero=True),
        Chart(
            "Validation accuracy by time",
            "%",
            "time since the first step began",
            series("epoch", _held_out, timed=True),
            axis="clock",
            from_zero=True,
        ),
        *(
            Chart(title, unit, "epoch", series("step", _value(name)), from_zero=True)
            for title, unit, name in (
                ("Throughput", "images/s, all ranks", "images_per_second"),
                ("Learning rate", "rate", "lr"),
                ("Communication", "ms a step, rank 0", "communication_seconds"),
            )
        ),
    ]
    return _with_points(charts)


def retry_marks(metrics: Sequence[Metric]) -> tuple[Mark, ...]:
    """A mark for every attempt after the first, at the step it went on from."""
    attempts = attempts_of(metrics)
    return tuple(
        Mark(resumed_at(attempt), f"retry {number}")
        for number, attempt in enumerate(attempts[1:], start=1)
    )


def loss_points(metrics: Sequence[Metric]) -> tuple[Point, ...]:
    return _points(_continued(metrics, "step")[0], _value("loss"))


def _continued(metrics: Sequence[Metric], event: str) -> tuple[list[Metric], list[list[Metric]]]:
    """The lines of one kind that led to the end, and by attempt those that were done again."""
    kept: list[Metric] = []
    lost: list[list[Metric]] = []
    for number, attempt in enumerate(attempts_of(metrics)):
        if number:
            resumed = resumed_at(attempt)
            again = [metric for metric in kept if metric.step > resumed]
            kept = [metric for metric in kept if metric.step <= resumed]
            if again:
                lost.append([*kept[-1:], *again])
        kept += of_event(attempt, event)
    return kept, lost


def _with_points(charts: Iterable[Chart]) -> list[Chart]:
    kept = []
    for chart in charts:
        series = tuple(one for one in chart.series if one.points)
        if series:
            kept.append(replace(chart, series=series))
    return kept


def _lines_or_range(
    lines: Mapping[str, tuple[Point, ...]],
) -> tuple[tuple[Series, ...], tuple[Band, ...]]:
    """A line each, or, of too many, their mean and the band from the lowest to the highest.

    The samples of different nodes are of different moments, so a stretch of time is what they have
    in common.
    """
    if len(lines) <= MOST_LINES:
        drawn = zip(lines.items(), COLOURS, strict=False)
        return tuple(Series(label, points, colour) for (label, points), colour in drawn), ()
    points = sorted(point for line in lines.values() for point in line)
    stretches = max(1, min(200, len(points) // len(lines)))
    size = math.ceil(len(points) / stretches)
    mean, band = [], []
    for begin in range(0, len(points), size):
        part = points[begin : begin + size]
        x, values = sum(x for x, _ in part) / len(part), [y for _, y in part]
        mean.append((x, sum(values) / len(values)))
        band.append((x, min(values), max(values)))
    return (Series("mean", tuple(mean), COLOURS[0]),), (Band(tuple(band), COLOURS[0]),)


def _points(metrics: Iterable[Metric], value: Value) -> tuple[Point, ...]:
    return _sampled((metric.step, value(metric)) for metric in metrics)


def _sampled(points: Iterable[tuple[float, float | None]]) -> tuple[Point, ...]:
    return tuple((x, y) for x, y in points if y is not None and math.isfinite(y))


def _share(part: float) -> str:
    """A part of 1 in percent, short enough for a legend."""
    return f"{100 * part:.{0 if part >= 0.1 else 1}f} %"


def _epoch(metric: Metric) -> float:
    """Epochs done, with the part of the one that is under way."""
    return metric.step * metric.epochs / metric.steps if metric.steps else metric.epoch


def _held_out(metric: Metric) -> float | None:
    """Accuracy on the validation split; of older runs, which had none, on the test set."""
    validation = _value("validation_accuracy")(metric)
    return _value("test_accuracy")(metric) if validation is None else validation


def _value(name: str) -> Value:
    """A field of a line, accuracies in per cent and times in milliseconds."""
    scale = 100 if name.endswith("accuracy") else 1e3 if name.endswith("_seconds") else 1

    def value(metric: Metric) -> float | None:
        number: float | None = getattr(metric, name)
        return None if number is None else scale * number

    return value


def _gib(size: float | None) -> float | None:
    return None if size is None else size / GIB
