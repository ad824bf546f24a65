"""Benchmarks on the cluster: launched like a run, shown as tables, kept as one file and a plot."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from yard.core.context import Context
from yard.core.errors import Exit, Interrupted, RequestError
from yard.core.files import read_json, write_json
from yard.core.words import clock
from yard.operations.readiness import make_ready
from yard.operations.stop import stop_on_nodes
from yard.plays.contract import FOLLOW, POLL_RUN, launch_variables, phase_of
from yard.plays.events import Event, Outcome
from yard.plays.inventory import Inventory, read_inventory
from yard.plays.play import play
from yard.request.resolve import resolve
from yard.request.training import Training, TrainRequest
from yard.runs.folder import STOP_MARK, followed
from yard.runs.measurements import BENCHMARK, open_measurement
from yard.screen.bench_tables import show_bench
from yard.screen.failures import show_failures
from yard.screen.live_progress import make_progress
from yard.screen.progress import PHASE_TEXTS

POLL_SECONDS = 30
# Matrix products and allreduce; all other parts are rounds of training.
QUICK_PARTS = 2
# A small one, a large one and the main job's; those that the inventory knows are measured.
MODELS = ("cnn_a", "resnet18", "vit")
BATCH = 64


def bench(
    context: Context, request: TrainRequest, models: tuple[str, ...], rounds: int, seconds: float
) -> Exit:
    """Measure matrix products, allreduce, and every way to train, in one job and in turns.

    What is compared is described in `trainer/bench/`. The result goes to `bench/results.json`, the
    plot to `bench/results.svg`, and everything else the job left to `bench/<id>/`.

    Args:
        request: nodes and ranks; its model is one of `models`.
        rounds: turns of each thing that is compared.
        seconds: approximate length of a turn of training.

    Raises:
        Interrupted: the user stopped it; its containers are gone.
    """
    project, console = context.project, context.console
    inventory = read_inventory(project, context.inventory)
    training = _resolve_all(request, models, inventory)
    if rounds < 1 or seconds <= 0:
        raise RequestError(f"rounds {rounds}, seconds {seconds:g}: must be above 0")
    inventory = make_ready(context, inventory, training)
    plan: dict[str, object] = {"models": list(models), "rounds": rounds, "seconds": seconds}
    directory = open_measurement(project, BENCHMARK, inventory, plan)
    console.print(f"Benchmark {directory.name}")
    with followed(directory):
        outcome = _launch(context, inventory, training, directory, plan)
        if outcome.cancelled:
            stop_on_nodes(context, directory, inventory.path)
            word = "interrupted" if context.interrupts.requested else "stopped by make stop"
            raise Interrupted(f"{word}; {project.shown(directory)} has the logs")
    result = read_json(directory / BENCHMARK.result)
    if not outcome.ok or result is None:
        show_failures(context, outcome)
        console.print(f"Logs: {project.shown(directory)}/logs")
        return Exit.FAILED
    measured_at = datetime.now(UTC).isoformat(timespec="seconds")
    result = {"run": directory.name, "measured_at": measured_at, **result}
    results, plot = (project.root / "bench" / f"results.{kind}" for kind in ("json", "svg"))
    write_json(results, result)
    # Only the plot needs the drawing.
    from yard.pages.bench_plot import draw_bench

    draw_bench(result, plot)
    show_bench(console, result)
    console.print(f"{project.shown(results)}, {project.shown(plot)}")
    return Exit.DONE


def _resolve_all(request: TrainRequest, models: tuple[str, ...], inventory: Inventory) -> Training:
    """Check the request with each of the models; what it comes to but for the model is the same."""
    problems: list[str] = []
    resolved = None
    for model in models:
        try:
            resolved = resolve(replace(request, model=model), inventory)
        except RequestError as error:
            problems += [problem for problem in error.problems if problem not in problems]
    if problems or resolved is None:
        raise RequestError(*(problems or ["no model is named, and the inventory knows none"]))
    return resolved


def position(lines: Sequence[Mapping[str, Any]]) -> str:
    """Where a benchmark is, like `part 5 of 17 · 6:12 left · allreduce`.

    Args:
        lines: of its `metrics.jsonl`; parts take about the same time, but for the first two.
    """
    newest = lines[-1]
    words = [f"part {newest['done'] + 1} of {newest['parts']}"]
    done = newest["done"] - QUICK_PARTS
    if done > 0:
        spent = newest["time"] - lines[QUICK_PARTS]["time"]
        words.append(f"{clock(spent / done * (newest['parts'] - newest['done']))} left")
    return " · ".join([*words, newest["what"]])


def _launch(
    context: Context,
    inventory: Inventory,
    training: Training,
    directory: Path,
    plan: dict[str, object],
) -> Outcome:
    variables = {
        **training.extravars(),
        "training_run_command": "bench",
        "training_run_bench": plan,
        # Nothing to show meanwhile, and every look takes time from the cores that are measured.
        "training_run_poll_seconds": POLL_SECONDS,
        **launch_variables(directory.name, str(directory)),
    }
    newest: list[Mapping[str, Any]] = []
    with make_progress(context.console) as progress:

        def show(event: Event) -> None:
            phase = phase_of(event.role, event.task_file)
            if phase is not None and event.kind == "playbook_on_task_start":
                progress.phase("Measuring" if phase == FOLLOW else PHASE_TEXTS[phase])
            metrics = event.result.get("metrics") if event.module == POLL_RUN else None
            if metrics and metrics[-1:] != newest:
                newest[:] = metrics[-1:]
                progress.note(f"  {position(metrics)}")

        context.interrupts.announce = lambda: progress.note("Stopping ...")
        outcome = play(
            context,
            "train",
            variables,
            show,
            log=directory / "ansible.log",
            inventory=inventory.path,
            stop_mark=directory / STOP_MARK,
        )
        if not outcome.ok:
            progress.fail()
    return outcome
