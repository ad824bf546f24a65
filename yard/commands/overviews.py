"""`make runs`, `make tag`, `make report` and `MODEL=list`: what there is, as tables and pages."""

import csv
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from yard.core.context import Context
from yard.core.errors import Exit, RequestError
from yard.plays.inventory import read_inventory
from yard.runs.folder import list_runs
from yard.runs.labels import label_run, tags_in
from yard.runs.measurements import find_training
from yard.runs.overview import listed_run, matching, overview_of
from yard.screen.tables import show_models, show_runs

# The pages take a while to import: each is imported where it is drawn.


def list_models(context: Context) -> Exit:
    show_models(context.console, read_inventory(context.project, context.inventory).models)
    return Exit.DONE


def list_all_runs(context: Context, form: str | None, find: str, last: int | None) -> Exit:
    """Print the table of runs, the newest first, and draw the page of them; or print for programs.

    Args:
        form: `json` or `csv`; None for the table.
        find: only runs that have all these words somewhere.
        last: only the newest so many of these; None for all.
    """
    if last is not None and last < 1:
        raise RequestError("LAST: must be at least 1")
    runs = context.project.runs
    there = map(overview_of, reversed(list_runs(runs)))
    chosen = matching(there, find)[:last]
    if form is not None:
        entries = [listed_run(runs / run.run_id, run) for run in chosen]
        if form == "json":
            print(json.dumps(entries, indent=2))
        elif entries:
            writer = csv.DictWriter(sys.stdout, fieldnames=list(entries[0]))
            writer.writeheader()
            writer.writerows(entries)
        return Exit.DONE
    from yard.pages.index import write_index

    if find and not chosen:
        context.console.print(escape(f"no run has all of these words: {find}"))
    else:
        show_runs(context.console, chosen)
    if os.access(runs, os.W_OK):
        context.console.print(f"\n[dim]as a page: {_shown(context, write_index(runs))}[/]")
    return Exit.DONE


def tag_run(context: Context, name: str, tags: str | None, note: str | None) -> Exit:
    """Say something of a run: replace its tags or its note; print what is said then."""
    run = find_training(context.project, name)
    labels = label_run(run, None if tags is None else tags_in(tags), note)
    if (tags, note) != (None, None):
        from yard.pages.index import write_index

        write_index(context.project.runs)
    said = " ".join(filter(None, (*(f"#{tag}" for tag in labels.tags), labels.note)))
    context.console.print(escape(f"{run.name}: {said or 'no tags and no note'}"))
    return Exit.DONE


def draw_reports(context: Context, names: Sequence[str]) -> Exit:
    """Draw the report of a run anew, or of several a comparison."""
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
