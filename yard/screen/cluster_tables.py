"""Tables of what is on the nodes now: a line each for nodes and for runs."""

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from yard.core.project import Project
from yard.core.words import clock, duration, first_names, size
from yard.plays.remedy import addressed
from yard.runs.cluster_state import (
    UNREACHABLE,
    ClusterState,
    GpuLoad,
    NodeLoad,
    NodeState,
    RunState,
)
from yard.runs.folder import RUN_ID
from yard.screen.failures import point_to_doctor
from yard.screen.plain_table import plain_table
from yard.screen.training_view import progress_of

COLOURS = {
    **{
        "busy": "green",
        "running": "green",
        "starting": "cyan",
        "ended": "yellow",
        "drained": "yellow",
    },
    **dict.fromkeys(("unreachable", "no answer", "no engine", "not set up"), "red"),
}
NODE_COLUMNS = ("node", "state", "cpu", "memory", "gpu", "disk left", "run")
RUN_COLUMNS = ("run", "state", "nodes", "for", "left", "progress", "owner")
# More names of nodes than this make a line too long.
MOST_HOSTS = 4
UNKNOWN = "-"


def show_cluster(console: Console, project: Project, inventory: Path, state: ClusterState) -> None:
    """Print both tables, and what is to be said of runs that are not as they should be."""
    console.print(nodes_table(state.nodes))
    if state.runs:
        console.print()
        console.print(runs_table(state.runs, state.time))
    for node in state.nodes:
        if node.reason:
            console.print(f"{node.host}: {node.reason}", markup=False)
        if node.apt:
            took = duration(max(0.0, state.time - node.apt.since))
            console.print(
                f"{node.host}: {node.apt.command} (pid {node.apt.pid}) installs packages, for "
                f"{took} so far, perhaps of an interrupted set-up; it ends by itself",
                markup=False,
            )
    if any(node.state == UNREACHABLE for node in state.nodes):
        point_to_doctor(console, project, inventory)
    for run in state.runs:
        if not run.known:
            # A verification or a benchmark cannot be gone on with.
            attach = addressed(f"make attach RUN={run.run}", project, inventory)
            way = f"; {attach} follows it from here"
            console.print(
                f"{run.run}: was started in another checkout, or its directory here is gone"
                f"{way if RUN_ID.fullmatch(run.run) else ''}"
            )
    for name in state.lost:
        console.print(
            f"{name}: has no result, and no node knows it; make attach RUN={name} ends it"
        )
    for name in state.unheard:
        console.print(
            f"{name}: has no result, and a node that it was on does not answer; once it does, "
            f"make attach RUN={name}"
        )


def nodes_table(nodes: Iterable[NodeState]) -> Table:
    """A line for every node and run on it."""
    table = plain_table(*NODE_COLUMNS)
    for node in nodes:
        load = node_cells(node.load)
        if not node.runs:
            table.add_row(Text(node.host), state_text(node.state), *map(Text, load), Text())
        for number, run in enumerate(node.runs):
            cells = load if number == 0 else [""] * len(load)
            table.add_row(
                Text(node.host if number == 0 else ""),
                state_text(run.state),
                *map(Text, cells),
                Text(run.shown),
            )
    return table


def runs_table(runs: Iterable[RunState], now: float) -> Table:
    """A line for every run; `now` in Unix seconds."""
    table = plain_table(*RUN_COLUMNS)
    for run in runs:
        cells = run_cells(run, now)
        table.add_row(
            Text(f"{run.name}\n{run.run}" if run.name else run.run),
            state_text(run.state),
            *map(Text, cells),
        )
    return table


def node_cells(load: NodeLoad | None) -> list[str]:
    """What stands in a node's line of processor, memory, GPUs and disk; of what is unknown, `-`."""
    if load is None:
        return [""] * 4
    memory = UNKNOWN
    if load.memory_used_bytes is not None and load.memory_bytes is not None:
        memory = f"{size(load.memory_used_bytes)} of {size(load.memory_bytes)}"
    return [
        UNKNOWN if load.cpu_percent is None else f"{load.cpu_percent:.0f} %",
        memory,
        " ".join(map(_gpu_busy, load.gpus)) or UNKNOWN,
        UNKNOWN if load.disk_free_bytes is None else size(load.disk_free_bytes),
    ]


def run_cells(run: RunState, now: float) -> list[str]:
    """What stands in a run's line of nodes, age, time left, progress and owner."""
    return [
        first_names(run.hosts, MOST_HOSTS),
        "" if run.since is None else duration(max(0.0, now - run.since)),
        "" if run.seconds_left is None or run.state != "running" else clock(run.seconds_left),
        progress_of(run.newest),
        run.owner or "",
    ]


def run_line(run: RunState, now: float) -> str:
    """The same without the nodes in a line, where no heading says which time is which."""
    _, age, left, *others = run_cells(run, now)
    times = (f"for {age}" if age else "", f"{left} left" if left else "")
    return " · ".join(filter(None, (*times, *others)))


def _gpu_busy(gpu: GpuLoad) -> str:
    return UNKNOWN if gpu.utilisation_percent is None else f"{gpu.utilisation_percent:.0f} %"


def state_text(state: str) -> Text:
    """The state of a node or a run, in its colour."""
    return Text(state, style=COLOURS.get(state, "dim"))
