"""`runs/index.html`: all runs on one page."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from yard.charts import loss_points
from yard.files import write_text
from yard.manifest import read_manifest
from yard.metrics import read_metrics
from yard.page import render
from yard.plot import spark
from yard.run import list_runs
from yard.summary import Summary, read_summary


@dataclass(frozen=True)
class Row:
    """One run as the page shows it.

    Attributes:
        request: what was trained: the configuration of the manifest.
        summary: None where there is none that can be read.
        started: day and time, UTC.
        curve: its training loss as a small line.
    """

    run_id: str
    name: str
    status: str
    request: Mapping[str, Any]
    summary: Summary | None
    has_report: bool
    started: str
    curve: Markup


def write_index(runs: Path) -> Path:
    """Draw the page of all runs, newest first; returns the path written."""
    rows = [row_of(run) for run in reversed(list_runs(runs))]
    path = runs / "index.html"
    write_text(path, render("index.html.j2", title="Runs", rows=rows, script=False))
    return path


def row_of(run: Path) -> Row:
    """Read what the page says of a run.

    A run without a summary is still going, or its `yard` was killed. A summary of another version
    of yard may lack what this one reads: its run stays in the list.
    """
    manifest = read_manifest(run)
    assert manifest is not None, "list_runs gives directories with a manifest"
    try:
        summary = read_summary(run)
        status = "unfinished" if summary is None else summary.status
    except (KeyError, TypeError):
        summary, status = None, "unreadable"
    what = f"{manifest.configuration['model']} on {manifest.configuration['dataset']}"
    return Row(
        run_id=run.name,
        name=manifest.name or what,
        status=status,
        request=manifest.configuration,
        summary=summary,
        has_report=(run / "report.html").is_file(),
        started=f"{datetime.fromtimestamp(manifest.started_at, UTC):%d %b %Y, %H:%M}",
        curve=Markup(spark(loss_points(read_metrics(run / "metrics.jsonl")))),
    )
