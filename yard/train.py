"""The way of a run: check, make ready, launch, follow, collect, sum up."""

import getpass
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from yard.context import Context
from yard.errors import ClusterError, Exit, Interrupted
from yard.inventory import Inventory, read_inventory
from yard.job import find_training
from yard.manifest import Manifest, new_manifest, write_manifest
from yard.metrics import Metric, read_metrics
from yard.playbook import Event, Outcome, run_playbook
from yard.progress import (
    FOLLOW_TASK,
    NOTHING_STARTED,
    PHASES,
    TRAINING,
    Progress,
    make_progress,
    phase_of,
)
from yard.request import Training, TrainRequest, resolve
from yard.retry import check_resumable, put_attempt_aside, resume_variables, worth_another
from yard.run import STOP_MARK, create_run, followed, inspected_image, read_run
from yard.setup import put_dataset, read_record, run_setup, setup_reasons
from yard.stop import stop_on_nodes
from yard.summary import Summary, read_summary, summarise, write_summary
from yard.verdict import show_verdict

CHOOSE_TASK = "Choose the nodes"
CHECKING = "check"
# What the gang check says where set-up, or the data set that make_ready puts there, is missing.
SETUP_HELPS = re.compile(r"\bmake (?:setup|data)\b|: unreachable:")


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
        launcher = Launcher(context, run, manifest, "train", variables)
        outcome = launcher.run()
        too_late = launcher.phase not in NOTHING_STARTED
        if _setup_would_help(inventory, outcome) and not (too_late or interrupts.requested):
            console.print("The nodes are not as set-up left them; setting up once more.")
            try:
                make_ready(context, inventory, training, force=True)
            except (ClusterError, Interrupted) as error:
                console.print(escape(str(error)), soft_wrap=True)
            else:
                launcher.run()
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
        Launcher(context, run, read_run(run).manifest, "train", {**variables, **resumed}).run()


def finish(context: Context, run: Path) -> Exit:
    """Sum a run up whose playbook has ended, and say how it went."""
    # What comes after this is short: a Ctrl-C there has nothing left to stop.
    interrupted = context.interrupts.requested
    if interrupted:
        stop_ranks(context, run)
    summary = conclude(run)
    show_verdict(context.console, context.project, run, summary)
    if not interrupted:
        return Exit(summary.exit_status)
    if summary.exit_status != Exit.INTERRUPTED:
        context.console.print("The interruption came after the run had ended by itself.")
    return Exit.INTERRUPTED


def stop(context: Context, run: Path) -> Exit:
    """End a run from another terminal: interrupt its ranks, collect, remove its containers.

    A run that already has its summary keeps it; what may be left of it is removed all the same.

    Raises:
        RequestError: it is no run.
    """
    over = read_summary(run)
    outcome = stop_ranks(context, run)
    if over is None:
        show_verdict(context.console, context.project, run, conclude(run))
    else:
        context.console.print(
            f"{escape(run.name)} had ended before ({over.status})", soft_wrap=True
        )
    return Exit.DONE if outcome.ok else Exit.FAILED


def stop_ranks(context: Context, run: Path, asked: bool = True) -> Outcome:
    """Stop a run on its nodes and collect what it left, whatever is pressed meanwhile.

    Args:
        asked: the user wants the end; else the run has ended, and what it left is collected.
    """
    manifest = read_run(run).manifest
    if asked:
        # First of all on disk, so that a launch that follows the run calls it stopped, not failed.
        (run / STOP_MARK).touch()
    return stop_on_nodes(context, run, Path(manifest.inventory_path))


def conclude(run: Path, finished_at: float | None = None) -> Summary:
    """Complete the manifest from what was collected, write the summary and draw the report.

    Args:
        finished_at: when the run was over, Unix seconds; now, if nothing is said.
    """
    # Takes a while to import; nobody shall wait for that at the start.
    from yard.report import draw_report

    record = read_run(run)
    manifest = replace(
        record.manifest,
        configuration={**record.manifest.configuration, **record.config},
        hosts=record.hosts,
        versions={**record.manifest.versions, "trainer": record.world.get("versions", {})},
        image=inspected_image(record),
    ).with_launch(finished_at=finished_at or time.time())
    write_manifest(run, manifest)
    summary = summarise(replace(record, manifest=manifest))
    write_summary(run, summary)
    draw_report(run)
    return summary


def owner() -> str:
    """Who runs it, as the nodes tell others who want them: `ada@control`."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def _setup_would_help(inventory: Inventory, outcome: Outcome) -> bool:
    """Whether the launch failed on nodes that set-up can make again: a machine was rebooted."""
    return bool(inventory.container_hosts) and any(
        failure.unreachable or SETUP_HELPS.search(failure.message) for failure in outcome.failures
    )


def announce(console: Console, inventory: Inventory, training: Training) -> None:
    """Say what will be trained, before anything is done."""
    least = f"{training.min_nodes} to " if training.min_nodes < training.nodes else ""
    nodes = f"{least}{training.nodes} node" + ("s" if training.nodes > 1 else "")
    least = f"{training.min_nodes * training.procs_per_node} to " if least else ""
    ranks = f"{least}{training.world_size} rank" + ("s" if training.world_size > 1 else "")
    console.print(
        f"[bold]{escape(training.model)}[/] on [bold]{escape(training.dataset)}[/], "
        f"{nodes}, {ranks} ({escape(inventory.name)})"
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


def make_ready(
    context: Context, inventory: Inventory, training: Training, force: bool = False
) -> Inventory:
    """Set the cluster up and put the data set there, as far as that is missing and ours to do.

    Only clusters whose nodes are containers are set up unasked. Machines are their owners'.

    Raises:
        ClusterError: it is needed and not ours to do, or it failed.
        Interrupted: the user stopped it.
    """
    project, console = context.project, context.console
    reasons = setup_reasons(project, inventory, training.min_nodes)
    ours = bool(inventory.container_hosts)
    if reasons and not ours:
        shown = project.shown(inventory.path)
        raise ClusterError(
            f"{shown} needs setting up: {'; '.join(reasons)}\nrun: make setup INVENTORY={shown}"
        )
    if reasons or force:
        console.print(f"Setting up: {escape('; '.join(reasons) or 'a node is not fit')}")
        inventory = run_setup(context, inventory, training.min_nodes)
    record = read_record(project, inventory)
    if ours and (record is None or training.dataset not in record.datasets):
        put_dataset(context, inventory, training.dataset)
    return inventory


@dataclass
class Launcher:
    """One run of a playbook that follows a run (train or attach), and what its events tell."""

    context: Context
    directory: Path
    manifest: Manifest
    playbook: str
    variables: Mapping[str, Any]
    phase: str = CHECKING
    _seen: set[tuple[str, int, float]] = field(default_factory=set)
    _polled_at: float | None = None

    def __post_init__(self) -> None:
        self._seen.update(metric.key for metric in read_metrics(self.directory / "metrics.jsonl"))

    def run(self) -> Outcome:
        """Launch and follow to the end, or until the user stops it; updates the manifest."""
        project, interrupts = self.context.project, self.context.interrupts
        self.phase = CHECKING
        began_at = time.time()
        with make_progress(self.context.console) as progress:
            interrupts.announce = lambda count: progress.note("Stopping ...")
            progress.phase(PHASES[CHECKING])
            outcome = run_playbook(
                project,
                project.playbook(self.playbook),
                Path(self.manifest.inventory_path),
                {
                    **self.variables,
                    "training_run_id": self.directory.name,
                    "training_run_collect_dir": str(self.directory),
                    "training_run_owner": owner(),
                },
                self.directory / "ansible.log",
                lambda event: self._take(event, progress, began_at),
                lambda: interrupts.requested,
            )
            if outcome.status == "cancelled":
                progress.fail()
        if outcome.failures:
            # After a failure the playbook goes on to collect: where it failed is what counts.
            first = outcome.failures[0]
            self.phase = phase_of(first.role, first.task_file) or self.phase
        self.manifest = self.manifest.with_launch(
            playbook=outcome.status, phase=self.phase, failures=outcome.failures
        )
        write_manifest(self.directory, self.manifest)
        return outcome

    def _take(self, event: Event, progress: Progress, began_at: float) -> None:
        """Turn one event into progress."""
        phase = phase_of(event.role, event.task_file)
        if phase is not None and event.kind == "playbook_on_task_start":
            self.phase = phase
            progress.phase(PHASES[phase])
        if phase == self.phase and event.kind == "runner_on_failed" and not event.ignored:
            progress.fail()
        if event.task:
            progress.task("waiting for the first step" if event.task == FOLLOW_TASK else event.task)
        if event.task == CHOOSE_TASK and event.kind == "runner_on_ok":
            nodes = event.result.get("ansible_facts", {}).get("training_run_nodes", [])
            if nodes and tuple(nodes) != self.manifest.hosts:
                self.manifest = replace(self.manifest, hosts=tuple(nodes))
                write_manifest(self.directory, self.manifest)
                progress.note(f"nodes: {', '.join(nodes)}")
        if event.task == FOLLOW_TASK and "metrics" in event.result:
            metrics = [Metric.from_json(line) for line in event.result["metrics"]]
            self._follow(metrics, event.received_at, progress, began_at)
            if event.result.get("exit_status"):
                progress.fail()

    def _follow(
        self, metrics: list[Metric], received_at: float, progress: Progress, began_at: float
    ) -> None:
        """Take in one poll. What is new goes to the run directory, in case its node dies."""
        new = [metric for metric in metrics if metric.key not in self._seen]
        self._seen.update(metric.key for metric in new)
        with (self.directory / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(metric.to_line() for metric in new)
        steps = [metric for metric in new if metric.event == "step"]
        if steps and self.manifest.launch.first_step_before is None:
            previous = self._polled_at if self._polled_at is not None else began_at
            self.manifest = self.manifest.with_launch(
                first_step_after=previous, first_step_before=received_at
            )
            write_manifest(self.directory, self.manifest)
        if new:
            progress.phase(TRAINING)
        for metric in new:
            progress.training(metric, received_at)
        self._polled_at = received_at
