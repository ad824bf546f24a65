"""Tables: of all runs, of all models."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from yard.core.words import percent, short_number
from yard.plays.inventory import Model
from yard.runs.overview import Overview, configuration_of, overview_of
from yard.runs.summary import Summary
from yard.screen.result import COLOURS

# From these widths on there is room for the four numbers, which the id has too, and for the rest.
NUMBERS_FROM, ALL_FROM, ASKED_FROM = 112, 150, 190

ASKED = ("learning_rate", "seed", "train_images", "engine", "precision")


def show_runs(console: Console, runs: Sequence[Path]) -> None:
    """Print a line for every run, newest first; see `Overview` for what its result may be."""
    if not runs:
        console.print("no runs yet")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("run", overflow="fold")
    table.add_column("result", no_wrap=True)
    table.add_column("accuracy", justify="right", no_wrap=True)
    table.add_column("images/s", justify="right", no_wrap=True)
    if console.width >= NUMBERS_FROM:
        for name in ("batch", "epochs", "nodes", "processes"):
            table.add_column(name, justify="right", no_wrap=True)
    if console.width >= ALL_FROM:
        table.add_column("started", no_wrap=True)
        table.add_column("name")
    if console.width >= ASKED_FROM:
        for name in ("rate", "seed", "images", "engine", "precision"):
            table.add_column(name, justify="right", no_wrap=True)
    for run in sorted(runs, reverse=True):
        overview = overview_of(run)
        cells = _row(run, overview)
        if console.width >= ASKED_FROM:
            asked = configuration_of(run, overview.configuration)
            cells += [Text(_known(asked.get(name))) for name in ASKED]
        table.add_row(*cells[: len(table.columns)])
    console.print(table)


def show_models(console: Console, models: Mapping[str, Model]) -> None:
    """Print a line for every model that an inventory offers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("model", no_wrap=True)
    table.add_column("parameters", justify="right", no_wrap=True)
    table.add_column("dataset", no_wrap=True)
    table.add_column("description")
    for model in models.values():
        table.add_row(
            Text(model.name),
            Text("" if model.parameters is None else f"{model.parameters:,}"),
            Text(str(model.defaults.get("dataset", ""))),
            Text(model.description),
        )
    console.print(table)


def _row(run: Path, overview: Overview) -> list[Text]:
    speed = overview.summary.images_per_second if overview.summary else None
    started = overview.started_at
    numbers = ("batch_per_rank", "epochs", "nodes", "procs_per_node")
    return [
        Text(run.name),
        Text(overview.status, style=COLOURS.get(overview.status, "dim")),
        Text(_quality(overview.summary)),
        Text("" if speed is None else f"{speed:,.1f}"),
        *(Text(_known(overview.configuration.get(name))) for name in numbers),
        Text(f"{datetime.fromtimestamp(started).astimezone():%Y-%m-%d %H:%M}" if started else ""),
        Text(overview.name or ""),
    ]


def _quality(summary: Summary | None) -> str:
    """The accuracy on the test set, of a run that did not get there on the validation split.

    Of another program the last loss, if it reported one.
    """
    if summary is None:
        return ""
    if summary.test_accuracy is not None:
        return percent(summary.test_accuracy)
    if summary.validation_accuracy is not None:
        return f"{percent(summary.validation_accuracy)} val"
    loss = summary.readings.get("loss")
    return "" if loss is None else f"loss {short_number(loss)}"


def _known(value: Any) -> str:
    return "" if value is None else str(value)
