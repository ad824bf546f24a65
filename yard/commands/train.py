"""`make train`: check, make ready, launch, follow, collect, sum up."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from yard.code.modules import missing_modules
from yard.code.own import seems_to_load
from yard.code.settings import NAME as SETTINGS
from yard.code.settings import NODE
from yard.code.snapshot import FOLDER
from yard.core.context import Context
from yard.core.errors import Detached, Exit, Interrupted, RequestError
from yard.core.project import Project
from yard.core.words import plural, size
from yard.operations.beside import leave
from yard.operations.ending import finish
from yard.operations.launch import RunFollower
from yard.operations.packages import (
    Packages,
    announce_packages,
    deliver_packages,
    have_packages,
    keep_code,
    packages_variables,
)
from yard.operations.queue import have_nodes
from yard.operations.readiness import make_ready, mended
from yard.operations.retries import going_on, try_again
from yard.operations.weights import find_weights
from yard.plays.contract import NOTHING_STARTED
from yard.plays.inventory import NATIVE, Inventory, read_inventory
from yard.request.job import Job
from yard.request.own_code import ProjectRequest, ProjectRun, resolve_project
from yard.request.own_data import with_own_data
from yard.request.resolve import VALIDATION, judge
from yard.request.training import Training, TrainRequest
from yard.runs.failure_rate import expected_failures
from yard.runs.folder import create_run, followed, remove_run
from yard.runs.manifest import new_manifest, read_manifest, write_manifest
from yard.runs.measurements import find_trained
from yard.runs.overview import configuration_of
from yard.runs.results import results_of
from yard.runs.retry import check_resumable, epochs_done, resume_variables
from yard.runs.world import read_world

# What a run must have in common with the one it goes on from; see trainer/resuming.py.
FIXED = ("model", "dataset", "optimizer", "seed", "freeze")


def train(
    context: Context,
    request: TrainRequest | ProjectRequest,
    started_at: float,
    waits: bool = False,
) -> Exit:
    """Train, from the request to the report.

    Args:
        started_at: when the command began, Unix seconds; the run's times count from there.

    Raises:
        Interrupted: the user stopped before there was a run.
    """
    project, console, interrupts = context.project, context.console, context.interrupts
    inventory = read_inventory(project, context.inventory)
    wanted = inventory.narrowed(request.on)
    if request.on:
        request = replace(request, nodes=request.nodes or len(wanted.trainers))
    job, earlier = judge_all(project, request, wanted)
    if earlier is not None:
        # Its whole name, for the record: `latest` is another run tomorrow.
        request = replace(request, resume=earlier.name)
    announce(console, wanted, job)
    if earlier is not None:
        announce_resumed(console, job, earlier)
    packages = _packages(context, wanted, request, job)
    inventory = make_ready(context, inventory, job)
    if packages is not None:
        deliver_packages(context, inventory, packages)
    if interrupts.requested:
        raise Interrupted("interrupted before anything was started")

    if earlier is not None:
        check_resumable(earlier)  # it may have been deleted meanwhile, and the run would begin anew
    run = create_run(project.runs, job)
    console.print(f"Run {escape(run.name)}")
    variables = job.extravars()
    code = None
    if isinstance(job, ProjectRun):
        code = keep_code(run, job, packages)
        variables |= {"training_run_code": str(run / FOLDER), "training_run_restarts": 0}
        variables |= packages_variables(packages)
    else:
        variables |= expected_failures(project.runs, job.nodes)
    manifest = new_manifest(project, inventory, request, job, run.name, started_at, code)
    write_manifest(run, manifest)
    if earlier is not None:
        variables = going_on(job, variables, resume_variables(earlier, same_run=False))
    try:
        with followed(run):
            limit = wanted.trainers if request.on else ()
            follower = RunFollower(context, run, manifest, "train", variables, limit, asks=True)
            outcome = follower.run()
            too_late = follower.phase not in NOTHING_STARTED or interrupts.requested
            if not too_late and mended(context, inventory, job, packages, outcome):
                outcome = follower.run()
            if not have_nodes(context, follower, outcome, waits):
                remove_run(run)
                return Exit.INTERRUPTED if interrupts.requested else Exit.UNFIT
            try_again(context, run, job, variables, request.retries, limit)
            return finish(context, run)
    except Detached:
        leave(context, run)
        if request.retries:
            console.print("RETRIES= ends here: where it fails, it is not started again.")
        raise


def _packages(
    context: Context, inventory: Inventory, request: TrainRequest | ProjectRequest, job: Job
) -> Packages | None:
    if not isinstance(request, ProjectRequest) or not isinstance(job, ProjectRun):
        return None
    requirements, packages = job.code.requirements, None
    if requirements is not None:
        earlier = None if request.lock is None else Path(request.lock)
        packages = have_packages(context, inventory, requirements, earlier)
    if packages is not None:
        announce_packages(context.console, packages)
    folder = None if packages is None else packages.folder
    for sentence in missing_modules(job.code.foreign, inventory.image_target, folder):
        context.console.print(f"[yellow]may fail[/]: {escape(sentence)}")
    return packages


def judge_all(
    project: Project, request: TrainRequest | ProjectRequest, inventory: Inventory
) -> tuple[Job, Path | None]:
    """The job, and the run that it goes on from.

    Raises:
        RequestError: with all that is wrong with the request, its weights and that run.
    """
    job: Job | None = None
    earlier: Path | None = None
    weights: dict[str, Any] = {}
    problems: list[str] = []
    if isinstance(request, ProjectRequest):
        job = resolve_project(request, inventory, project)
    else:
        job, problems = judge(request, with_own_data(project, inventory))
        try:
            weights = find_weights(project, request)
        except RequestError as error:
            problems += error.problems
    try:
        if request.resume is not None:
            earlier = find_trained(project, request.resume)
            _check_same_kind(request, earlier)
            check_resumable(earlier)
            if isinstance(job, Training):
                check_same_training(job, earlier, inventory)
                _check_more_is_asked(job, earlier)
    except RequestError as error:
        problems += error.problems
    if job is None or problems:
        raise RequestError(*problems)
    return (replace(job, **weights) if isinstance(job, Training) else job), earlier


def _check_same_kind(request: TrainRequest | ProjectRequest, earlier: Path) -> None:
    """See that a project goes on from a project, and the trainer from the trainer."""
    manifest = read_manifest(earlier)
    was_project = manifest is not None and manifest.project is not None
    if was_project != isinstance(request, ProjectRequest):
        ran = "a project (CODE=)" if was_project else "the trainer (MODEL=)"
        raise RequestError(
            f"{earlier.name} ran {ran}, and no other program can go on from its files"
        )


def check_same_training(job: Training, earlier: Path, inventory: Inventory) -> None:
    """See that what a checkpoint is for is asked for again, as far as the earlier run tells.

    Raises:
        RequestError: with everything that is not the same.
    """
    manifest = read_manifest(earlier)
    if manifest is None:
        return
    unsaid = {name: option.default for name, option in inventory.options.items()}
    unsaid |= inventory.defaults.get("recipe", {})
    asked = {**unsaid, **job.options, "model": job.model, "dataset": job.dataset}
    before = {**unsaid, **configuration_of(earlier, manifest.configuration)}
    fixed = [*FIXED]
    world = read_world(earlier / "world.json")
    if world.validation_images is not None:
        fixed += [VALIDATION, "train_images"]
        everything = (world.train_images_available or 0) - world.validation_images
        asked["train_images"] = job.train_images or everything
        before["train_images"] = world.train_images
    dataset = inventory.datasets.get(job.dataset)
    if dataset is None or dataset.image_size is None:
        fixed.append("image_size")
    problems = [
        f"{name} {_said(asked[name])}: {earlier.name} was trained with {_said(before[name])}, and "
        "its checkpoints fit nothing else"
        for name in fixed
        if name in asked and name in before and asked[name] != before[name]
    ]
    if world.ranks and world.validation_images is None and asked.get(VALIDATION) != 0:
        problems.append(
            f"validation: {earlier.name} is of an earlier version, which held no training images "
            "out; go on with VALIDATION=0"
        )
    if problems:
        raise RequestError(*problems)


def _said(value: Any) -> str:
    return "unsaid" if value is None else str(value)


def _check_more_is_asked(job: Training, earlier: Path) -> None:
    """See that something is left to train."""
    epochs = epochs_done(earlier, job.epochs)
    if epochs is not None:
        done = f"{earlier.name} has done {plural(epochs, 'epoch')}"
        raise RequestError(f"{done}; ask for more: EPOCHS={epochs + 1}")


def announce_resumed(console: Console, job: Job, earlier: Path) -> None:
    """Say from what a run goes on, and warn where nothing seems to make the program load it."""
    results = results_of(earlier)
    files = "; ".join(
        f"{result.names[0]}{f' and {len(result.names) - 1} more' if result.names[1:] else ''} "
        f"in {result.folder}/"
        for result in results
    )
    console.print(escape(f"goes on from {earlier.name}: {files}"))
    if not isinstance(job, ProjectRun):
        return
    added = job.code.settings.resume_args
    if added:
        console.print(escape(f"and is given: {shlex.join(added)}"))
    elif not seems_to_load(job.code):
        console.print(
            "[yellow]may start from scratch[/]: nothing in the program's files seems to load a "
            "checkpoint. Have it load what is in $TRAINYARD_CHECKPOINT_DIR, or name the option "
            f"that makes it load one as resume_args in {SETTINGS}"
        )


def announce(console: Console, inventory: Inventory, job: Job) -> None:
    """Say what will be trained, before anything is done."""
    range_ = job.min_nodes < job.nodes
    least = f"{job.min_nodes} to " if range_ else ""
    least_ranks = f"{job.ranks_on(job.min_nodes)} to " if range_ else ""
    data = "" if job.dataset is None else f" on [bold]{escape(job.dataset)}[/]"
    console.print(
        f"[bold]{escape(job.model)}[/]{data}, {least}{plural(job.nodes, 'node')}, "
        f"{least_ranks}{plural(job.world_size, 'rank')} ({escape(inventory.name)})"
    )
    if inventory.runtime == NATIVE:
        console.print("runs without root and containers, in namespaces of the account on each node")
    if job.slots:
        slots = ", ".join(f"{slots} on {name}" for name, slots in job.slots.items())
        console.print(escape(f"ranks as each node carries: {slots}"))
    if job.gpus_per_node is not None:
        console.print(f"takes {plural(job.gpus_per_node, 'free GPU')} of each node")
    if isinstance(job, Training):
        _announce_training(console, job)
    elif isinstance(job, ProjectRun):
        _announce_project(console, job)


def _announce_project(console: Console, job: ProjectRun) -> None:
    code, files = job.code, job.code.files
    per = "node, which starts its ranks" if code.per == NODE else "rank"
    lines = [f"runs on every {per}: {shlex.join(code.program)}"]
    revision = ""
    if code.git is not None:
        changed = ", with changes" if code.git["dirty"] else ""
        revision = f" (git {code.git['revision'][:12]}{changed})"
    lines.append(
        f"{plural(len(files.travelling), 'file')}, {size(files.bytes)}, of {code.shown}{revision}"
    )
    if files.left_out:
        shown = ", ".join(map(str, files.left_out[:5]))
        more = len(files.left_out) - 5
        shown += f", and {more} more" if more > 0 else ""
        lines.append(f"left out by {files.rules}: {shown}")
    for line in lines:
        console.print(escape(line))
    for warning in code.warnings:
        console.print(f"[yellow]may be wrong:[/] {escape(warning)}")


def _announce_training(console: Console, training: Training) -> None:
    if training.test_only:
        console.print(escape(f"tests {training.weights}"))
        return
    console.print(
        f"batch {training.batch_per_rank} a rank, {plural(training.epochs, 'epoch')}, "
        f"learning rate {training.learning_rate:g}"
    )
    if training.weights is not None:
        console.print(escape(f"begins from {training.weights}"))
    if training.is_subset:
        images = f"{training.train_images:,}"
        if training.train_images_available:
            images += f" of {training.train_images_available:,}"
        console.print(f"trains on {images} images (TRAIN_IMAGES=all for the whole set)")
