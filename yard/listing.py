"""The table of all runs."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from yard.summary import Summary, read_summary
from yard.verdict import COLOURS

# From this width on there is room for the time beside the id, which begins with it.
WIDE = 104


def show_runs(console: Console, runs: Sequence[Path]) -> None:
    """Print a line for every run, newest first.

    The column `b/e/n/p` has batch a rank, epochs, nodes and processes a node. A run without a
    summary is still going, or its `yard` was killed: `yard stop` ends and collects it.
    """
    wide = console.width >= WIDE
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("run", overflow="fold")
    table.add_column("result", no_wrap=True)
    for name in ("test acc", "images/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("b/e/n/p", no_wrap=True)
    if wide:
        table.add_column("started", no_wrap=True)
        table.add_column("name")
    for run in sorted(runs, reverse=True):
        table.add_row(*_row(run.name, read_summary(run), wide))
    console.print(table)


def _row(run_id: str, summary: Summary | None, wide: bool) -> list[Text]:
    if summary is None:
        return [Text(run_id), Text("unfinished", style="dim")]
    cells = [
        Text(run_id),
        Text(summary.status, style=COLOURS[summary.status]),
        Text("" if summary.test_accuracy is None else f"{100 * summary.test_accuracy:.1f} %"),
        Text("" if summary.images_per_second is None else f"{summary.images_per_second:,.1f}"),
        Text(f"{summary.batch_per_rank}/{summary.epochs}/{summary.nodes}/{summary.procs_per_node}"),
    ]
    if wide:
        started = summary.started_at
        local = datetime.fromisoformat(started).astimezone() if started else None
        cells += [Text(f"{local:%Y-%m-%d %H:%M}" if local else ""), Text(summary.name or "")]
    return cells
