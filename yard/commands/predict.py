"""`make evaluate` and `make predict`: what the model of a run makes of images."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from yard import STARTED_AT
from yard.commands.series import succeeded
from yard.commands.train import train
from yard.core.context import Context
from yard.core.errors import ClusterError, Exit, RequestError
from yard.core.files import read_object, write_text
from yard.core.words import percent
from yard.operations.trainer_here import checkpoint_of, run_trainer_here
from yard.plays.inventory import read_inventory
from yard.request.own_data import read_own_data, with_own_data
from yard.request.resolve import check_dataset
from yard.request.training import TrainRequest
from yard.runs.manifest import NOT_OURS
from yard.runs.measurements import find_trained

# What a run of the nodes leaves for the folder of the results.
RESULTS = ("evaluation.json", "predictions.csv")


def evaluate(
    context: Context, name: str, dataset: str | None, which: str, nodes: int | None = None
) -> Exit:
    """Look at the test set of a data set with the model of a run.

    Args:
        dataset: None for that of the run.
        which: best or last, the checkpoint.
        nodes: how many of them share the images, as a run; None for this machine alone.
    """
    return _look(context, name, which, dataset, None, nodes)


def predict(context: Context, name: str, source: Path, which: str) -> Exit:
    """Tell the classes of the image files in a folder with the model of a run."""
    source = source.expanduser().absolute()
    if not source.is_dir():
        raise RequestError(f"SOURCE={source}: there is no such folder on this machine")
    return _look(context, name, which, None, source)


def _look(
    context: Context,
    name: str,
    which: str,
    dataset: str | None,
    source: Path | None,
    nodes: int | None = None,
) -> Exit:
    project, console = context.project, context.console
    inventory = read_inventory(project, context.inventory)
    if dataset is not None:
        check_dataset(dataset, with_own_data(project, inventory))
    run = find_trained(project, name)
    checkpoint, manifest = checkpoint_of(context, run, which)
    tested = dataset or manifest.configuration["dataset"]
    here = source is None and nodes is None
    own = read_own_data(project, inventory).get(tested) if here else None
    if own is not None and not Path(own.source).is_dir():
        raise RequestError(
            f"DATASET={tested}: came from {own.shown}, which is not a folder here; unpack it, and "
            "give make predict its test images by SOURCE=folder"
        )
    what = source.name if source is not None else tested
    kind = "evaluation" if source is None else "prediction"
    out = run / f"{kind}s" / f"{what}_{checkpoint.stem}"
    results = out
    if nodes is None:
        out.mkdir(parents=True, exist_ok=True)
        arguments = ["--out", "/to", "--data", "/data" if own is None else "/own"]
        arguments += ["--dataset", tested] if source is None else ["--source", "/source"]
        run_trainer_here(
            *(context, inventory, "predict", checkpoint, arguments),
            to=out,
            source=source,
            datasets=[tested] if here and own is None else [],
            own=None if own is None else (tested, Path(own.source)),
        )
    else:
        status, left = _on_nodes(
            *(context, run, manifest.configuration["model"], checkpoint, tested, nodes)
        )
        if status != Exit.DONE:
            return status
        results = left / "outputs"
    result = read_object(results / "evaluation.json")
    # Only now: the page takes a while to import.
    from yard.pages.evaluation import evaluation_page

    title = f"{checkpoint.name} of {run.name} on {what}"
    try:
        page, told = evaluation_page(title, result), _told(result)
    except (LookupError, *NOT_OURS) as error:  # a rank can write anything there
        raise ClusterError(
            f"{project.shown(results)}/evaluation.json has no results that can be read: {error!r}"
        ) from error
    if results != out:
        out.mkdir(parents=True, exist_ok=True)
        for path in filter(Path.is_file, (results / name for name in RESULTS)):
            shutil.copyfile(path, out / path.name)
    write_text(out / "evaluation.html", page)
    shown = project.shown(out)
    for line in (
        f"{title}: {', '.join(told)}",
        f"{shown}/predictions.csv, {shown}/evaluation.html",
    ):
        console.print(line, markup=False)
    return Exit.DONE


def _told(result: Mapping[str, Any]) -> list[str]:
    told = [f"{result['images']:,} images"]
    if result["labelled"]:
        told.append(f"accuracy {percent(result['accuracy'])} of {result['labelled']:,}")
    if result["top5"] is not None:
        told.append(f"top-5 {percent(result['top5'])}")
    return told


def _on_nodes(
    context: Context, run: Path, model: str, checkpoint: Path, dataset: str, nodes: int
) -> tuple[Exit, Path]:
    """Have nodes test a checkpoint; returns how it went, and the run that it was."""
    request = TrainRequest(
        model=model,
        dataset=dataset,
        nodes=nodes,
        precision="fp32",
        weights=str(checkpoint),
        test_only=True,
        epochs=1,
        batch=1,
        name=f"{checkpoint.stem} of {run.name} on {dataset}",
    )
    status = train(context, request, STARTED_AT)
    return status, succeeded(context.project.runs).get(request.name, run)
