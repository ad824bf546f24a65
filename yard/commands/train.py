"""`make train`: check, make ready, launch, follow, collect, sum up."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from yard.core.context import Context
from yard.core.errors import ClusterError, Exit, Interrupted
from yard.core.words import plural
from yard.operations.ending import finish
from yard.operations.launch import RunFollower
from yard.operations.readiness import make_ready, setup_would_help
from yard.plays.contract import NOTHING_STARTED
from yard.plays.inventory import Inventory, read_inventory
from yard.request.resolve import resolve
from yard.request.training import Training, TrainRequest
from yard.runs.folder import create_run, followed
from yard.runs.manifest import new_manifest, write_manifest
from yard.runs.measurements import find_training
from yard.runs.record import read_run
from yard.runs.retry import check_resumable, put_attempt_aside, resume_variables, worth_another


def train(context: Context, request: TrainRequest, started_at: float) -> Exit:
    """Train, from the request to the report.

    Args:
        started_at: when the command began, Unix seconds; the run's times count from there.

    Raises:
        RequestError: the request makes no sense; nothing has been touched.
        ClusterError: the cluster is not set up, and set-up failed or is not ours to run.
        Interrupted: the user stopped before there was a run.
    """
    project, console, interrupts = context.project, context.console, context.interrupts
    inventory = read_inventory(project, context.inventory)
    training = resolve(request, inventory)
    earlier = None if request.resume is None else find_training(project, request.resume)
    if earlier is not None:
        check_resumable(earlier)
    announce(console, inventory, training)
    inventory = make_ready(context, inventory, training)
    if interrupts.requested:
        raise Interrupted("interrupted before anything was started")

    run = create_run(project.runs, training)
    console.print(f"Run {escape(run.name)}", soft_wrap=True)
    manifest = new_manifest(project, inventory, request, training, run.name, started_at)
    write_manifest(run, manifest)
    variables = training.extravars()
    if earlier is not None:
        variables |= resume_variables(earlier, same_run=False)
    with followed(run):
        follower = RunFollower(context, run, manifest, "train", variables)
        outcome = follower.run()
        too_late = follower.phase not in NOTHING_STARTED or interrupts.requested
        if setup_would_help(inventory, outcome) and not too_late:
            console.print("The nodes are not as set-up left them; setting up once more.")
            try:
                make_ready(context, inventory, training, force=True)
            except (ClusterError, Interrupted) as error:
                console.print(escape(str(error)), soft_wrap=True)
            else:
                follower.run()
        _try_again(context, run, variables, request.retries)
        return finish(context, run)


def _try_again(context: Context, run: Path, variables: Mapping[str, Any], retries: int) -> None:
    """Launch a failed run again, as often as was asked and may help."""
    for left in reversed(range(retries)):
        failure = worth_another(read_run(run))
        if failure is None or context.interrupts.requested:
            return
        place = put_attempt_aside(run)
        resumed = resume_variables(run, same_run=True)
        whence = "from its newest checkpoint" if "training_run_resume_from" in resumed else "anew"
        context.console.print(
            f"[yellow]Failed[/] ({escape(failure.host or 'not known where')}: "
            f"{escape(failure.cause)}) It starts {whence}; retries left: {left}. "
            f"Its logs are in {escape(context.project.shown(place))}",
            soft_wrap=True,
        )
        RunFollower(context, run, read_run(run).manifest, "train", {**variables, **resumed}).run()


def announce(console: Console, inventory: Inventory, training: Training) -> None:
    """Say what will be trained, before anything is done."""
    range_ = training.min_nodes < training.nodes
    least = f"{training.min_nodes} to " if range_ else ""
    least_ranks = f"{training.min_nodes * training.procs_per_node} to " if range_ else ""
    console.print(
        f"[bold]{escape(training.model)}[/] on [bold]{escape(training.dataset)}[/], "
        f"{least}{plural(training.nodes, 'node')}, "
        f"{least_ranks}{plural(training.world_size, 'rank')} ({escape(inventory.name)})"
    )
    console.print(
        f"batch {training.batch_per_rank} a rank, {training.epochs} epochs, "
        f"learning rate {training.learning_rate:g}"
    )
    if training.is_subset:
        images = f"{training.train_images:,}"
        if training.train_images_available:
            images += f" of {training.train_images_available:,}"
        console.print(f"trains on {images} images (TRAIN_IMAGES=all for the whole set)")
