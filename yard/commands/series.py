"""Several trainings one after the other: seeds, a sweep, and what `make scaling` compares."""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import yaml
from rich.markup import escape

from yard.commands.train import train
from yard.core.context import Context
from yard.core.errors import Detached, Exit, RequestError
from yard.core.files import write_json, write_text
from yard.core.words import plural
from yard.operations.weights import find_weights
from yard.plays.inventory import read_inventory
from yard.request.own_data import with_own_data
from yard.request.resolve import resolve
from yard.request.series import SEED, cases_of, label_of, read_sweep
from yard.request.training import TrainRequest
from yard.runs.folder import list_runs
from yard.runs.overview import overview_of
from yard.runs.series import best_of, row_of
from yard.runs.summary import read_summary
from yard.screen.series import show_series


def train_series(
    context: Context, request: TrainRequest, sweep: str, seeds: int, waits: bool = False
) -> Exit:
    """Train all combinations of a sweep with some seeds each, and compare them.

    What an earlier call of the same request has trained is not trained again.

    Args:
        sweep: like `lr=1e-3,3e-4 batch=32,64`; empty for seeds alone.
        seeds: how many, from that of the request on.

    Raises:
        RequestError: with all that is wrong with any of them; nothing has been touched.
        Detached: the user has left a run; those after it are not trained.
    """
    if request.resume is not None or seeds < 1:
        raise RequestError("SEEDS= and SWEEP=: begin anew, without RESUME=, with one seed or more")
    inventory = read_inventory(context.project, context.inventory).narrowed(request.on)
    if request.on:
        request = replace(request, nodes=request.nodes or len(inventory.trainers))
    inventory = with_own_data(context.project, inventory)
    # What all of them have in common, the first seed among it.
    resolve(request, inventory)
    try:
        values = read_sweep(sweep, yaml.safe_load)
    except yaml.YAMLError as error:
        raise RequestError(f"SWEEP: {error}; it is like lr=1e-3,3e-4 batch=32,64") from error
    if request.weights and Path(request.weights).name == "latest":
        raise RequestError(
            "WEIGHTS=latest: each of these trainings is a new run; name the one you mean"
        )
    weights = find_weights(context.project, request).get("weights")
    cases = cases_of(replace(request, weights=weights), values, seeds)
    problems: list[str] = []
    for case in cases.values():
        try:
            resolve(case, inventory)
        except RequestError as error:
            problems += [problem for problem in error.problems if problem not in problems]
    if problems:
        raise RequestError(*problems)
    asked = json.dumps([request.to_json(), values, seeds], sort_keys=True, default=str)
    digest = hashlib.sha256(asked.encode()).hexdigest()[:8]
    # With the digest too where it has a name: under that another request may have been trained.
    series = f"{request.name or 'series'}-{digest}"
    context.console.print(f"{plural(len(cases), 'training')}: {escape(series)}")
    try:
        runs, status = train_each(context, series, cases, goes_on=True, waits=waits)
    except Detached:
        context.console.print("Once it is over, the same command goes on with what is left.")
        raise
    if status not in (Exit.DONE, Exit.FAILED):
        context.console.print("The same command goes on with what is left.")
        return status
    by_label: dict[str, list[Path | None]] = {}
    for label, case in cases.items():
        own = label_of({SEED: case.options[SEED]}) if seeds > 1 else ""
        point = label.removesuffix(own).strip()
        by_label.setdefault(point, []).append(runs.get(label))
    rows = [
        row_of(
            label, len(those), [summary for run in those if run and (summary := read_summary(run))]
        )
        for label, those in by_label.items()
    ]
    best = best_of(rows)
    show_series(context.console, rows, best)
    path = context.project.runs / f"series-{digest}" / "series.json"
    document = {"series": series, "rows": [asdict(row) for row in rows]}
    write_json(path, {**document, "best": None if best is None else best.label})
    # It takes a while to import.
    from yard.pages.series import series_page

    page = path.with_suffix(".html")
    write_text(page, series_page(context.project.runs, series, rows, best))
    shown = [context.project.shown(file) for file in (page, path)]
    context.console.print(escape(", ".join(shown)))
    return status


def train_each(
    context: Context,
    series: str,
    cases: Mapping[str, TrainRequest],
    goes_on: bool = False,
    waits: bool = False,
) -> tuple[dict[str, Path], Exit]:
    """Train one after the other; a run of that name that succeeded before is taken as it is.

    Args:
        series: what the names of the runs begin with.
        cases: by the label that they end with.
        goes_on: whether a run that failed leaves the others to be trained.

    Returns:
        The runs that succeeded, by label, and how it ended: with what the first one failed.
    """
    runs: dict[str, Path] = {}
    worst = Exit.DONE
    before = succeeded(context.project.runs)
    for label, case in cases.items():
        name = f"{series}, {label}"
        run = before.get(name)
        if run is None:
            context.console.rule(escape(label), align="left")
            status = train(context, replace(case, name=name), time.time(), waits)
            worst = worst if worst != Exit.DONE else status
            if status != Exit.DONE and not (goes_on and status == Exit.FAILED):
                return runs, status
            run = succeeded(context.project.runs).get(name)
        if run is not None:
            runs[label] = run
    return runs, worst


def succeeded(runs: Path) -> dict[str | None, Path]:
    """The newest run of each name that succeeded."""
    overviews = ((run, overview_of(run)) for run in list_runs(runs))
    return {overview.name: run for run, overview in overviews if overview.status == "succeeded"}
