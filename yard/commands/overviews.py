"""`make runs`, `make report` and `MODEL=list`: what there is, as tables and pages."""

import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from yard.core.context import Context
from yard.core.errors import Exit
from yard.plays.inventory import read_inventory
from yard.runs.folder import list_runs
from yard.runs.measurements import find_training
from yard.runs.overview import listed_run
from yard.screen.tables import show_models, show_runs

# The pages take a while to import: each is imported where it is drawn.


def list_models(context: Context) -> Exit:
    """Print the models of an inventory."""
    show_models(context.console, read_inventory(context.project, context.inventory).models)
    return Exit.DONE


def list_all_runs(context: Context, form: str | None = None) -> Exit:
    """Print the table of runs, and draw the page of it; or print them for programs.

    Args:
        form: `json` or `csv`, the newest run first; None for the table.
    """
    runs = context.project.runs
    if form is not None:
        entries = [listed_run(run) for run in sorted(list_runs(runs), reverse=True)]
        if form == "json":
            print(json.dumps(entries, indent=2))
        elif entries:
            writer = csv.DictWriter(sys.stdout, fieldnames=list(entries[0]))
            writer.writeheader()
            writer.writerows(entries)
        return Exit.DONE
    from yard.pages.index import write_index

    show_runs(context.console, list_runs(runs))
    if runs.is_dir():
        context.console.print(
            f"\n[dim]as a page: {_shown(context, write_index(runs))}[/]", soft_wrap=True
        )
    return Exit.DONE


def draw_reports(context: Context, names: Sequence[str]) -> Exit:
    """Draw the report of a run anew, or of several a comparison.

    Raises:
        RequestError: there is no such run, or it is not over yet.
    """
    from yard.pages.comparison import write_comparison
    from yard.pages.report import write_report

    chosen = [find_training(context.project, name) for name in names]
    path = (
        write_report(chosen[0])
        if len(chosen) == 1
        else write_comparison(context.project.runs, chosen)
    )
    context.console.print(_shown(context, path), soft_wrap=True)
    return Exit.DONE


def _shown(context: Context, path: Path) -> str:
    return escape(context.project.shown(path))
