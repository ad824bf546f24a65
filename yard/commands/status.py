"""What runs where, asked of the nodes."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from yard.core.context import Context
from yard.core.errors import ClusterError, Exit, Interrupted
from yard.core.words import duration
from yard.plays.contract import READ_STATUS
from yard.plays.events import Event
from yard.plays.play import fresh_log, play
from yard.runs.folder import list_runs
from yard.runs.metrics import Metric
from yard.runs.readings import Reading
from yard.runs.summary import read_summary
from yard.screen.failures import show_failures
from yard.screen.training_view import program_position, training_position

COLOURS = {"running": "green", "starting": "cyan", "ended": "yellow", "unreachable": "red"}


@dataclass(frozen=True)
class NodeRun:
    """A run on a node.

    Attributes:
        run: its id; None on a node that is free or does not answer.
        state: `free`, `unreachable`, `starting`, `running`, or `ended`: it waits to be collected.
        owner: who started it, where the node knows.
        since: when it took the node, Unix seconds.
        progress: how far it is, which the launcher's node knows.
    """

    host: str
    run: str | None
    state: str
    owner: str | None = None
    since: float | None = None
    progress: str = ""


def show_status(context: Context) -> Exit:
    """Print a line for every node and run, and the runs that no node knows.

    Raises:
        ClusterError: the nodes could not be asked.
    """
    node_runs = ask_nodes(context)
    show_nodes(context.console, node_runs)
    on_nodes = {entry.run for entry in node_runs}
    lost = [
        run.name
        for run in list_runs(context.project.runs)
        if read_summary(run) is None and run.name not in on_nodes
    ]
    for name in lost:
        context.console.print(
            f"{name}: has no result and is on none of these nodes; make attach RUN={name} ends it",
            soft_wrap=True,
        )
    return Exit.DONE


def ask_nodes(context: Context) -> list[NodeRun]:
    """Ask every node of the inventory what runs there, in its order.

    Raises:
        ClusterError: something else than an unreachable node was in the way.
    """
    answers: dict[str, list[NodeRun]] = {}

    def take(event: Event) -> None:
        if event.module != READ_STATUS or not event.host:
            return
        if event.kind == "runner_on_unreachable":
            answers[event.host] = [NodeRun(event.host, None, "unreachable")]
        elif event.kind == "runner_on_ok":
            runs = [_node_run(event.host, entry) for entry in event.result["runs"]]
            answers[event.host] = runs or [NodeRun(event.host, None, "free")]

    outcome = play(context, "status", {}, take, log=fresh_log(context, "status"))
    if outcome.cancelled:
        raise Interrupted("interrupted")
    if not answers or not outcome.ok:
        show_failures(context.console, outcome)
        raise ClusterError("the nodes could not be asked")
    return [entry for host in sorted(answers) for entry in answers[host]]


def show_nodes(console: Console, node_runs: list[NodeRun]) -> None:
    """Print the table."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("node", "state", "run", "owner", "for", "progress"):
        table.add_column(name, overflow="fold")
    now = time.time()
    for entry in node_runs:
        table.add_row(
            Text(entry.host),
            Text(entry.state, style=COLOURS.get(entry.state, "dim")),
            Text(entry.run or ""),
            Text(entry.owner or ""),
            Text("" if entry.since is None else duration(max(0.0, now - entry.since))),
            Text(entry.progress),
        )
    console.print(table)


def progress_of(line: Any) -> str:
    """How far a run is, by the newest line of its metrics, decoded; "" where it says nothing."""
    metric = Metric.from_json(line)
    if metric is not None:
        return training_position(metric)
    reading = Reading.from_json(line)
    return "" if reading is None else program_position(reading)


def _node_run(host: str, entry: Mapping[str, Any]) -> NodeRun:
    return NodeRun(
        host=host,
        run=entry["run"],
        state=entry["state"],
        owner=entry["owner"],
        since=entry["since"],
        progress=progress_of(entry["metric"]),
    )
