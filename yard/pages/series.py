"""`series.html`: what several trainings of one request came to, with the curves of each."""

from collections.abc import Sequence
from pathlib import Path

from yard.pages.charts import comparison_charts
from yard.pages.page import render
from yard.pages.plot import COLOURS
from yard.runs.record import read_run
from yard.runs.series import Row
from yard.screen.series import HEADINGS, cells_of


def series_page(runs: Path, title: str, rows: Sequence[Row], best: Row | None) -> str:
    """A row for each combination, and the curves of the first run of as many as have a colour."""
    first = {row.label or row.runs[0]: row.runs[0] for row in rows if row.runs}
    curves = {
        label: read_run(runs / run).metrics for label, run in list(first.items())[: len(COLOURS)]
    }
    return render(
        "series.html.j2",
        title=title,
        best=best,
        headings=HEADINGS,
        rows=[(row, cells_of(row)) for row in rows],
        charts=comparison_charts(curves),
        left_out=len(first) - len(curves),
    )
