"""Tables: of all runs, of all models."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from yard.inventory import Model
from yard.manifest import read_manifest
from yard.summary import read_summary
from yard.verdict import COLOURS

# From these widths on there is room for the four numbers, which the id has too, and for the rest.
NUMBERS_FROM, ALL_FROM = 112, 150


def show_runs(console: Console, runs: Sequence[Path]) -> None:
    """Print a line for every run, newest first.

    A run without a summary is still going, or its `yard` was killed: `yard stop` ends and collects
    it. One whose summary another version of yard wrote in another way is called unreadable.
    """
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
    for run in sorted(runs, reverse=True):
        table.add_row(*_row(run)[: len(table.columns)])
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


def _row(run: Path) -> list[Text]:
    manifest = read_manifest(run)
    assert manifest is not None, "list_runs gives directories with a manifest"
    try:
        summary = read_summary(run)
    except (KeyError, TypeError):
        result, accuracy, speed = Text("unreadable", style="red"), None, None
    else:
        if summary is None:
            result, accuracy, speed = Text("unfinished", style="dim"), None, None
        else:
            result = Text(summary.status, style=COLOURS[summary.status])
            accuracy, speed = summary.test_accuracy, summary.images_per_second
    configuration = manifest.configuration
    numbers = ("batch_per_rank", "epochs", "nodes", "procs_per_node")
    return [
        Text(run.name),
        result,
        Text("" if accuracy is None else f"{100 * accuracy:.1f} %"),
        Text("" if speed is None else f"{speed:,.1f}"),
        *(Text(str(configuration[name])) for name in numbers),
        Text(f"{datetime.fromtimestamp(manifest.started_at).astimezone():%Y-%m-%d %H:%M}"),
        Text(manifest.name or ""),
    ]
