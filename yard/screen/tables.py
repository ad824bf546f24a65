"""Tables: of all runs, of all models."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Column
from rich.text import Text

from yard.core.words import duration
from yard.plays.inventory import Model
from yard.runs.overview import Overview
from yard.screen.plain_table import plain_table
from yard.screen.result import COLOURS

# Columns of the screen from which there is room for when a run started, and for everything.
STARTED_FROM, ALL_FROM = 112, 150
# Columns of the first one at the most: a long cause moves the others away from their ids.
RUN_UP_TO = 80


def show_runs(console: Console, runs: Sequence[Overview]) -> None:
    """Print what there is to say of every run, in the order given; see `Overview`."""
    if not runs:
        console.print("no runs")
        return
    # A narrow gap keeps the id of a run of the trainer's on one line, from which it can be copied.
    gap = 2 if console.width >= STARTED_FROM else 1
    most = RUN_UP_TO if console.is_terminal else None
    table = plain_table(Column("run", overflow="fold", max_width=most), gap=gap)
    table.add_column("result", no_wrap=True)
    for name in ("time", "accuracy", "loss"):
        table.add_column(name, justify="right", no_wrap=True)
    if console.width >= STARTED_FROM:
        table.add_column("started", no_wrap=True)
    if console.width >= ALL_FROM:
        table.add_column("images/s", justify="right", no_wrap=True)
        table.add_column("owner", no_wrap=True)
    for run in runs:
        table.add_row(*_row(run)[: len(table.columns)])
    console.print(table)


def show_models(console: Console, models: Mapping[str, Model]) -> None:
    """Print a line for every model that an inventory offers."""
    table = plain_table(
        Column("model", no_wrap=True),
        Column("parameters", justify="right", no_wrap=True),
        Column("dataset", no_wrap=True),
        "description",
    )
    for model in models.values():
        table.add_row(
            Text(model.name),
            Text("" if model.parameters is None else f"{model.parameters:,}"),
            Text(str(model.defaults.get("dataset", ""))),
            Text(model.description),
        )
    console.print(table)


def _row(run: Overview) -> list[RenderableType]:
    summary = run.summary
    seconds = summary.seconds_total if summary else None
    speed = summary.images_per_second if summary else None
    started = run.started_at
    what: list[RenderableType] = [Text(run.run_id)]
    names = (run.short, run.name, *(f"#{tag}" for tag in run.labels.tags))
    for text, style in (
        (" ".join(filter(None, names)), "bold"),
        (run.labels.note, "italic"),
        (run.arguments, "dim"),
        (run.cause, "red"),
    ):
        if text:
            what.append(Padding(Text(text, style=style), (0, 0, 0, 2)))
    return [
        Group(*what),
        Text(run.status, style=COLOURS.get(run.status, "dim")),
        Text("" if seconds is None else duration(seconds)),
        Text(run.accuracy),
        Text(run.loss),
        Text(f"{datetime.fromtimestamp(started).astimezone():%Y-%m-%d %H:%M}" if started else ""),
        Text("" if speed is None else f"{speed:,.1f}"),
        Text(run.owner or ""),
    ]
