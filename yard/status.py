"""What runs where, asked of the nodes."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from yard.context import Context
from yard.errors import ClusterError, Interrupted
from yard.metrics import Metric
from yard.playbook import Event, run_playbook
from yard.progress import TrainingView, duration, percent
from yard.run import list_runs
from yard.setup import show_failures
from yard.summary import read_summary

STATUS_TASK = "Look what runs here"
COLOURS = {"running": "green", "starting": "cyan", "ended": "yellow", "unreachable": "red"}


@dataclass(frozen=True)
class NodeRun:
    """A run on a node.

    Attributes:
        run: its id; None on a node that is free or does not answer.
        state: `free`, `unreachable`, `starting`, `running`, or `ended`: it waits to be collected.
        owner: who started it, where the node knows.
        since: when it took the node, Unix seconds.
        metric: its newest line, which the launcher's node has.
    """

    host: str
    run: str | None
    state: str
    owner: str | None = None
    since: float | None = None
    metric: Metric | None = None


def show_status(context: Context) -> None:
    """Print a line for every node and run, and the runs that no node knows.

    Raises:
        ClusterError: the nodes could not be asked.
    """
    found = ask_nodes(context)
    show_nodes(context.console, found)
    there = {entry.run for entry in found}
    lost = [
        run.name
        for run in list_runs(context.project.runs)
        if read_summary(run) is None and run.name not in there
    ]
    for name in lost:
        context.console.print(
            f"{name}: has no result and is on none of these nodes; make attach RUN={name} ends it",
            soft_wrap=True,
        )


def ask_nodes(context: Context) -> list[NodeRun]:
    """Ask every node of the inventory what runs there, in its order.

    Raises:
        ClusterError: something else than an unreachable node was in the way.
    """
    project = context.project
    answers: dict[str, list[NodeRun]] = {}

    def take(event: Event) -> None:
        if event.task != STATUS_TASK or not event.host:
            return
        if event.kind == "runner_on_unreachable":
            answers[event.host] = [NodeRun(event.host, None, "unreachable")]
        elif event.kind == "runner_on_ok":
            runs = [_node_run(event.host, entry) for entry in event.result["runs"]]
            answers[event.host] = runs or [NodeRun(event.host, None, "free")]

    log = project.state(context.inventory) / "log" / "status.log"
    log.unlink(missing_ok=True)
    outcome = run_playbook(
        project,
        project.playbook("status"),
        context.inventory,
        {},
        log,
        take,
        lambda: context.interrupts.requested,
    )
    if outcome.status == "cancelled":
        raise Interrupted("interrupted")
    if not answers or not outcome.ok:
        show_failures(context.console, outcome)
        raise ClusterError("the nodes could not be asked")
    return [entry for host in sorted(answers) for entry in answers[host]]


def show_nodes(console: Console, found: list[NodeRun]) -> None:
    """Print the table."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("node", "state", "run", "owner", "for", "progress"):
        table.add_column(name, overflow="fold")
    now = time.time()
    for entry in found:
        table.add_row(
            Text(entry.host),
            Text(entry.state, style=COLOURS.get(entry.state, "dim")),
            Text(entry.run or ""),
            Text(entry.owner or ""),
            Text("" if entry.since is None else duration(max(0.0, now - entry.since))),
            Text("" if entry.metric is None else progress_of(entry.metric)),
        )
    console.print(table)


def progress_of(metric: Metric) -> str:
    """How far a run is, like `step 40/469 · epoch 1/3 · loss 2.104 · 121 images/s`."""
    position = f"step {metric.step}/{metric.steps}"
    if metric.event == "step":
        view = TrainingView()
        view.update(metric, time.time())
        return f"{position} · {view.numbers()}"
    position += f" · epoch {metric.epoch}/{metric.epochs}"
    if metric.event != "start" and metric.accuracy is not None:
        position += f" · test accuracy {percent(metric.accuracy)}"
    return position


def _node_run(host: str, entry: Mapping[str, Any]) -> NodeRun:
    metric = entry["metric"]
    return NodeRun(
        host=host,
        run=entry["run"],
        state=entry["state"],
        owner=entry["owner"],
        since=entry["since"],
        metric=None if metric is None else Metric.from_json(metric),
    )
