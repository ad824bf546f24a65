"""`make evaluate` and `make predict`: what the model of a run makes of images."""

from pathlib import Path

from yard.core.context import Context
from yard.core.errors import Exit, RequestError
from yard.core.files import read_object, write_text
from yard.core.words import percent
from yard.operations.trainer_here import checkpoint_of, run_trainer_here
from yard.plays.inventory import read_inventory
from yard.request.own_data import read_own_data, with_own_data
from yard.request.resolve import check_dataset
from yard.runs.measurements import find_training


def evaluate(context: Context, name: str, dataset: str | None, which: str) -> Exit:
    """Look at the test set of a data set with the model of a run.

    Args:
        dataset: None for that of the run.
        which: best or last, the checkpoint.
    """
    return _look(context, name, which, dataset, None)


def predict(context: Context, name: str, source: Path, which: str) -> Exit:
    """Tell the classes of the image files in a folder with the model of a run."""
    source = source.expanduser().absolute()
    if not source.is_dir():
        raise RequestError(f"SOURCE={source}: there is no such folder on this machine")
    return _look(context, name, which, None, source)


def _look(
    context: Context, name: str, which: str, dataset: str | None, source: Path | None
) -> Exit:
    project, console = context.project, context.console
    inventory = read_inventory(project, context.inventory)
    if dataset is not None:
        check_dataset(dataset, with_own_data(project, inventory))
    run = find_training(project, name)
    checkpoint, manifest = checkpoint_of(context, run, which)
    tested = dataset or manifest.configuration["dataset"]
    own = read_own_data(project, inventory).get(tested) if source is None else None
    if own is not None and not Path(own.source).is_dir():
        raise RequestError(
            f"DATASET={tested}: came from {own.shown}, which is not a folder here; unpack it, and "
            "give make predict its test images by SOURCE=folder"
        )
    what = source.name if source is not None else tested
    kind = "evaluation" if source is None else "prediction"
    out = run / f"{kind}s" / f"{what}_{checkpoint.stem}"
    out.mkdir(parents=True, exist_ok=True)
    arguments = ["--out", "/to", "--data", "/data" if own is None else "/own"]
    arguments += ["--dataset", tested] if source is None else ["--source", "/source"]
    run_trainer_here(
        *(context, inventory, "predict", checkpoint, arguments),
        to=out,
        source=source,
        datasets=[tested] if source is None and own is None else [],
        own=None if own is None else (tested, Path(own.source)),
    )
    result = read_object(out / "evaluation.json")
    # Only now: the page takes a while to import.
    from yard.pages.evaluation import evaluation_page

    title = f"{checkpoint.name} of {run.name} on {what}"
    write_text(out / "evaluation.html", evaluation_page(title, result))
    told = [f"{result['images']:,} images"]
    if result["labelled"]:
        told.append(f"accuracy {percent(result['accuracy'])} of {result['labelled']:,}")
    if result["top5"] is not None:
        told.append(f"top-5 {percent(result['top5'])}")
    shown = project.shown(out)
    for line in (
        f"{title}: {', '.join(told)}",
        f"{shown}/predictions.csv, {shown}/evaluation.html",
    ):
        console.print(line, markup=False)
    return Exit.DONE
