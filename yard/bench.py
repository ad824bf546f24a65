"""Benchmarks on the cluster: launched like a run, shown as a table, kept as one file."""

import time
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table

from yard.context import Context
from yard.errors import Exit, Interrupted
from yard.files import read_json, write_json
from yard.inventory import read_inventory
from yard.playbook import Event, run_playbook
from yard.progress import PHASES, make_progress, phase_of
from yard.request import TrainRequest, resolve
from yard.run import run_id_of
from yard.setup import show_failures
from yard.train import make_ready

# What rank 0 writes into its run directory.
RESULT = "throughput.json"
POLL_SECONDS = 60


def bench(context: Context, request: TrainRequest) -> Exit:
    """Measure training throughput beside the same processes without communication.

    Both are measured in one job, in turns (see `trainer/bench.py`). The result goes to
    `bench/results.json`, and everything else the job left to `bench/<id>/`.

    Raises:
        RequestError: the request makes no sense; nothing has been touched.
        ClusterError: the cluster is not set up, and set-up failed or is not ours to run.
        Interrupted: the user stopped it; its containers are gone.
    """
    project, console, interrupts = context.project, context.console, context.interrupts
    inventory = read_inventory(project, context.inventory)
    training = resolve(request, inventory)
    inventory = make_ready(context, inventory, training)
    name = run_id_of(replace(training, dataset="bench"), time.time())
    directory = project.root / "bench" / name
    variables = {
        **training.extravars(),
        "training_run_command": "bench",
        "training_run_id": name,
        "training_run_collect_dir": str(directory),
        # Nothing to show meanwhile, and every look takes time from the cores that are measured.
        "training_run_poll_seconds": POLL_SECONDS,
    }

    with make_progress(console) as progress:

        def show(event: Event) -> None:
            phase = phase_of(event.role, event.task_file)
            if phase is not None and event.kind == "playbook_on_task_start":
                progress.phase("Measuring" if phase == "follow" else PHASES[phase])

        interrupts.announce = lambda _: progress.note("Stopping ...")
        launch = project.playbook("train")
        log = directory / "ansible.log"
        outcome = run_playbook(
            project, launch, inventory.path, variables, log, show, lambda: interrupts.requested
        )
        if not outcome.ok:
            progress.fail()
    if outcome.status == "cancelled":
        keys = ("training_run_id", "training_run_collect_dir")
        stop = project.playbook("stop")
        ending = {key: variables[key] for key in keys}
        ended = run_playbook(project, stop, inventory.path, ending, log, lambda _: None)
        # Silent where it worked, as it mostly does; what is left on a node must be said.
        show_failures(console, ended)
        raise Interrupted(f"interrupted; {project.shown(directory)} has the logs")
    result = read_json(directory / RESULT)
    if not outcome.ok or result is None:
        show_failures(console, outcome)
        console.print(f"Logs: {project.shown(directory)}/logs", soft_wrap=True)
        return Exit.FAILED
    results = project.root / "bench" / "results.json"
    write_json(results, {**result, "run": name})
    show_throughput(console, result)
    console.print(f"Written to {project.shown(results)}", soft_wrap=True)
    return Exit.DONE


def show_throughput(console: Console, result: dict[str, Any]) -> None:
    """Print every round and the medians."""
    title = (
        f"{result['model']}, batch {result['batch_per_rank']} a rank, {result['precision']}, "
        f"{result['world_size']} ranks on {len(result['hosts'])} nodes, images/s"
    )
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for heading in ("round", "no communication", "Horovod", "of ideal"):
        table.add_column(heading, justify="right")
    speeds = {(r["round"], r["engine"]): r["images_per_second"] for r in result["rounds"]}
    for number in sorted({number for number, _ in speeds}):
        ideal, real = speeds[number, "independent"], speeds[number, "horovod"]
        table.add_row(str(number), f"{ideal:.1f}", f"{real:.1f}", f"{100 * real / ideal:.1f} %")
    median = result["images_per_second"]
    table.add_section()
    table.add_row(
        "median",
        f"{median['independent']:.1f}",
        f"{median['horovod']:.1f}",
        f"{100 * result['ratio']:.1f} %",
        style="bold",
    )
    console.print(title, soft_wrap=True)
    console.print(table)
