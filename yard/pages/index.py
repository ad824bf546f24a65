"""`runs/index.html`: all runs on one page."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from markupsafe import Markup

from yard.core.files import write_text
from yard.pages.charts import loss_points
from yard.pages.page import render
from yard.pages.reading_charts import curve_of
from yard.pages.spark import spark
from yard.runs.folder import list_runs
from yard.runs.gathering import METRICS, all_readings
from yard.runs.metrics import read_metrics
from yard.runs.overview import Overview, overview_of
from yard.runs.summary import subject_of


@dataclass(frozen=True)
class Row:
    """One run as the page shows it.

    Attributes:
        title: its name, or what was trained.
        started: day and time, UTC.
    """

    run: Overview
    title: str
    has_report: bool
    started: str
    curve: Markup


def write_index(runs: Path) -> Path:
    """Draw the page of all runs, newest first; returns the path written."""
    rows = [row_of(run, overview_of(run)) for run in reversed(list_runs(runs))]
    path = runs / "index.html"
    write_text(path, render("index.html.j2", title="Runs", rows=rows, script=False))
    return path


def title_of(run: Overview) -> str:
    """Its name, or what was trained."""
    model, dataset = map(run.configuration.get, ("model", "dataset"))
    return run.name or (subject_of(str(model or "?"), dataset) if model else run.run_id)


def row_of(run: Path, overview: Overview) -> Row:
    """Read what the page says of a run."""
    # Of a program of the user's own the lines are others: as metrics of the trainer there are none.
    points = loss_points(read_metrics(run / METRICS)) or curve_of(all_readings(run), "loss").points
    start = overview.started_at
    moment = None if start is None else datetime.fromtimestamp(start, UTC)
    return Row(
        run=overview,
        title=title_of(overview),
        has_report=(run / "report.html").is_file(),
        started="" if moment is None else f"{moment:%d %b %Y, %H:%M}",
        curve=Markup(spark(points)),
    )
