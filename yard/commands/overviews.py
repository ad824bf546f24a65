"""`make runs`, `make report` and `MODEL=list`: what there is, as tables and pages."""

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from yard.core.context import Context
from yard.core.errors import Exit
from yard.plays.inventory import read_inventory
from yard.runs.folder import list_runs
from yard.runs.measurements import find_training
from yard.screen.tables import show_models, show_runs

# The pages take a while to import: each is imported where it is drawn.


def list_models(context: Context) -> Exit:
    """Print the models of an inventory."""
    show_models(context.console, read_inventory(context.project, context.inventory).models)
    return Exit.DONE


def list_all_runs(context: Context) -> Exit:
    """Print the table of runs, and draw the page of it."""
    from yard.pages.index import write_index

    runs = context.project.runs
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
