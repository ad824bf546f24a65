"""The table of a series of trainings."""

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Column

from yard.core.words import percent
from yard.runs.series import Measure, Row
from yard.screen.plain_table import plain_table

HEADINGS = ("validation accuracy", "test accuracy", "training loss", "images/s")


def show_series(console: Console, rows: Sequence[Row], best: Row | None) -> None:
    """Print a row for each combination, with mean and standard deviation over its seeds."""
    cells = [cells_of(row) for row in rows]
    # Numbers stay whole, and long labels and headings go on below themselves.
    columns = [
        Column(heading, justify="right", width=max(map(len, (*heading.split(), *column))))
        for heading, *column in zip(HEADINGS, *cells, strict=True)
    ]
    table = plain_table("", "runs", *columns)
    for row, values in zip(rows, cells, strict=True):
        name = escape(row.label or "all seeds")
        shown = f"[bold]{name}[/]" if row is best else name
        table.add_row(shown, runs_of(row), *values)
    console.print(table)
    if best is not None:
        console.print(f"Best on the validation split: [bold]{escape(best.label)}[/]")


def runs_of(row: Row) -> str:
    """How many runs of a combination succeeded."""
    if not row.runs:
        return "failed"
    return str(row.asked) if len(row.runs) == row.asked else f"{len(row.runs)} of {row.asked}"


def cells_of(row: Row) -> list[str]:
    """A combination's measures below `HEADINGS`."""
    return [
        _cell(row.validation_accuracy, percent),
        _cell(row.test_accuracy, percent),
        _cell(row.final_loss, lambda value: f"{value:.3f}"),
        _cell(row.images_per_second, lambda value: f"{value:,.1f}"),
    ]


def _cell(measure: Measure | None, form: Callable[[float], str]) -> str:
    if measure is None:
        return ""
    mean = form(measure.mean)
    if measure.deviation is None:
        return mean
    return f"{mean.removesuffix(' %')} ± {form(measure.deviation)}"
