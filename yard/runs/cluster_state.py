"""What the nodes say of themselves: what runs on them, how far it is, how busy they are."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from yard.core.files import in_form, read_object
from yard.runs.bars import readings_of_bars
from yard.runs.folder import RUN_ID
from yard.runs.metrics import MEASURED, Metric
from yard.runs.pace import seconds_left_by
from yard.runs.readings import Reading

# States of a node, and of a run on it; `ended` waits to be collected.
FREE, BUSY, DRAINED = "free", "busy", "drained"
UNREACHABLE, SILENT = "unreachable", "no answer"
# States of a node that does not know its runs, by the code with which it says so, and the reason.
NO_ENGINE, NOT_SET_UP = "no engine", "not set up"
TROUBLES = {
    "no_engine": (NO_ENGINE, "{message}: systemctl status docker tells more there"),
    "no_directory": (NOT_SET_UP, "there is no {path}: run make setup"),
    "drained": (DRAINED, "{reason}; no run starts there until {path} is removed"),
}
# A node in one of these may have runs that it does not tell.
UNKNOWING = (UNREACHABLE, SILENT, NO_ENGINE)
# Characters of the end of a log that are searched for a bar, as many as node/runs/listing.py sends
MOST_SAID = 2000
STARTING, RUNNING, ENDED = "starting", "running", "ended"
# What goes on is seen before what is left of a run that has ended.
ORDER = (RUNNING, STARTING, ENDED)


@dataclass(frozen=True)
class GpuLoad:
    """One GPU of a node; None where the driver does not tell.

    Attributes:
        utilisation_percent: of the time in which it computed.
        memory_used_bytes, memory_bytes: of its own memory.
    """

    index: int
    name: str
    utilisation_percent: float | None
    memory_used_bytes: int | None
    memory_bytes: int | None


@dataclass(frozen=True)
class NodeLoad:
    """How busy a node is; None where it does not tell.

    Attributes:
        cpu_percent: of all its cores, 0 to 100.
        memory_used_bytes, memory_bytes: in use, and in all.
        disk_free_bytes, disk_bytes: of the disk that holds the runs.
    """

    cpu_percent: float | None
    cores: int | None
    memory_used_bytes: int | None
    memory_bytes: int | None
    disk_free_bytes: int | None
    disk_bytes: int | None
    gpus: tuple[GpuLoad, ...] = ()


@dataclass(frozen=True)
class NodeRun:
    """A run on a node; `state` is `starting`, `running` or `ended`.

    Attributes:
        gpus: numbers of the node's GPUs that it holds; empty where it has the whole node.
        name: what its user called it, where this checkout knows.
    """

    run: str
    state: str
    gpus: tuple[int, ...] = ()
    name: str | None = None

    @property
    def shown(self) -> str:
        """Its name, or else its id, with its GPUs if it shares the node."""
        gpus = ", ".join(map(str, self.gpus))
        called = self.name or self.run
        return f"{called} (GPU {gpus})" if gpus else called


@dataclass(frozen=True)
class Installer:
    """A program that installs packages on a node; `since` in Unix seconds of the node's clock.

    What a set-up began there goes on to its end when the set-up is interrupted.
    """

    command: str
    pid: int
    since: float


@dataclass(frozen=True)
class NodeState:
    """A node. One that is busy has runs, and one that gives no answer has no load.

    Attributes:
        state: `free` or `busy`; `drained` where an operator keeps new runs off it; where its runs
            are not known `no engine`, `not set up`, `no answer` or `unreachable`.
        reason: why no run can start there, and what to do; empty where one can.
        apt: who installs packages there, as far as it was asked.
    """

    host: str
    state: str
    runs: tuple[NodeRun, ...] = ()
    load: NodeLoad | None = None
    reason: str = ""
    apt: Installer | None = None


@dataclass(frozen=True)
class RunState:
    """A run that is on some nodes.

    Attributes:
        state: `running` if it is that on any of its nodes, then `starting`, then `ended`.
        known: whether this checkout has its directory, or it is no run at all but keeps runs away.
        hosts: the nodes that it is on, as far as they answer.
        owner: who started it, where a node knows.
        since: when it took its nodes, Unix seconds.
        newest: the newest line of its metrics.
        seconds_left: until its last step, by its pace so far.
        name: what its user called it, where this checkout knows.
    """

    run: str
    state: str
    known: bool
    hosts: tuple[str, ...]
    owner: str | None = None
    since: float | None = None
    newest: Metric | Reading | None = None
    seconds_left: float | None = None
    name: str | None = None

    @property
    def title(self) -> str:
        """Its name, if it has one, and its id."""
        return f"{self.name} ({self.run})" if self.name else self.run


@dataclass(frozen=True)
class ClusterState:
    """All that one look at the nodes finds.

    Attributes:
        time: when it was complete, Unix seconds of the control node.
        nodes: in the order of their names.
        runs: what is on them, the oldest first, and last those that have ended.
        lost: runs of this inventory without a result that no node knows.
        unheard: the same of which a node told nothing, so that it may have them.
    """

    time: float
    nodes: tuple[NodeState, ...]
    runs: tuple[RunState, ...]
    lost: tuple[str, ...] = ()
    unheard: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The document of `make status JSON=1`."""
        runs = []
        for run in self.runs:
            entry = {**asdict(run), **progress_numbers(run.newest)}
            del entry["newest"]
            runs.append(entry)
        return {**asdict(self), "runs": runs}


@dataclass
class Answers:
    """What the nodes have answered so far; of each node the last answer counts."""

    runs: Path
    _answers: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    _silent: dict[str, tuple[str, str]] = field(default_factory=dict)

    def take(self, host: str, answer: Mapping[str, Any] | None) -> None:
        """Take in what a node answers; None where it cannot be reached."""
        self._answers[host] = answer

    def miss(self, host: str, state: str, reason: str) -> None:
        """Take in that a node has no answer: UNREACHABLE or SILENT, and why."""
        self._answers[host] = None
        self._silent[host] = (state, reason)

    def is_missed(self, host: str) -> bool:
        """Whether it is known why a node has no answer."""
        return host in self._silent and self._answers[host] is None

    @property
    def is_empty(self) -> bool:
        """Whether no node has been heard of."""
        return not self._answers

    def state(self, now: float, unfinished: Iterable[str]) -> ClusterState:
        """What the answers come to.

        Args:
            now: Unix seconds.
            unfinished: the runs of this inventory that have no result.
        """
        nodes = tuple(self._node_state(host, self._answers[host]) for host in sorted(self._answers))
        entries: dict[str, dict[str, Mapping[str, Any]]] = {}
        clocks: dict[str, float] = {}
        for host, answer in sorted(self._answers.items()):
            if answer is not None:
                clocks[host] = answer["time"]
                for entry in answer["runs"]:
                    entries.setdefault(entry["run"], {})[host] = entry
        runs = [self._run_state(run, by_host, clocks) for run, by_host in entries.items()]
        runs.sort(key=lambda run: (run.state == ENDED, run.since or 0.0, run.run))
        knowing = {node.host for node in nodes if node.state not in UNKNOWING}
        missing = {run: self._hosts(run) <= knowing for run in unfinished if run not in entries}
        lost = tuple(run for run, all_answered in missing.items() if all_answered)
        unheard = tuple(run for run in missing if run not in lost)
        return ClusterState(now, nodes, tuple(runs), lost, unheard)

    def _hosts(self, run: str) -> set[str]:
        """The nodes that a run of this checkout has taken."""
        return set(read_object(self.runs / run / "manifest.json").get("hosts") or ())

    def _node_state(self, host: str, answer: Mapping[str, Any] | None) -> NodeState:
        if answer is None:
            state, reason = self._silent.get(host, (UNREACHABLE, ""))
            return NodeState(host, state, reason=reason)
        load, trouble = in_form(NodeLoad, answer["load"]), answer.get("trouble")
        runs = tuple(
            NodeRun(
                entry["run"],
                entry["state"],
                tuple(entry.get("gpus", ())),
                self._name(entry["run"]),
            )
            for entry in sorted(answer["runs"], key=lambda entry: ORDER.index(entry["state"]))
        )
        apt = Installer(**answer["apt"]) if answer.get("apt") else None
        if trouble is None:
            return NodeState(host, BUSY if runs else FREE, runs, load, apt=apt)
        state, sentence = TROUBLES.get(trouble["code"], (SILENT, "{code}"))
        known = defaultdict(str, trouble["values"], code=trouble["code"])
        return NodeState(host, state, runs, load, sentence.format_map(known), apt)

    def _run_state(
        self, run: str, by_host: Mapping[str, Mapping[str, Any]], clocks: Mapping[str, float]
    ) -> RunState:
        states = {entry["state"] for entry in by_host.values()}

        def first(name: str) -> Any:
            return next((e[name] for e in by_host.values() if e[name] is not None), None)

        # Only the first node of a run has metrics, and their times are of its clock.
        host = next((host for host, entry in by_host.items() if entry["metric"] is not None), None)
        newest = earlier = left = None
        if host is not None:
            newest = known_line(by_host[host]["metric"])
            earlier = known_line(by_host[host]["earlier"])
        else:
            newest = bar_in("".join(entry["said"] for entry in by_host.values()))
            left = newest.seconds_left if newest else None
        if host is not None and newest is not None and earlier is not None:
            left = seconds_left_by((earlier, newest), clocks[host])
        # What a role keeps runs off a node with has no home.
        is_run = first("home") != ""
        return RunState(
            run=run,
            state=next(state for state in ORDER if state in states),
            known=not is_run or (self.runs / run).is_dir(),
            hosts=tuple(by_host),
            owner=first("owner"),
            since=first("since"),
            newest=newest,
            seconds_left=left,
            name=self._name(run),
        )

    def _name(self, run: str) -> str | None:
        if not RUN_ID.fullmatch(run):
            return None
        name = read_object(self.runs / run / "manifest.json").get("name")
        return name if isinstance(name, str) else None


def known_line(line: Any) -> Metric | Reading | None:
    """A decoded line of metrics, of the trainer or of another program; None where it is neither."""
    return Metric.from_json(line) or Reading.from_json(line)


def bar_in(said: str) -> Reading | None:
    """What the last progress bar in the end of a log says; None where there is none."""
    # A node tells no more than that; one that does would have us search for long.
    readings = readings_of_bars(re.split(r"[\r\n]+", said[-MOST_SAID:]))
    return readings[-1] if readings else None


def progress_numbers(line: Metric | Reading | None) -> dict[str, Any]:
    """Where a run is, by a line of its metrics: step, steps, epoch, epochs and `values` by name."""
    names = ("step", "steps", "epoch", "epochs")
    if line is None:
        return {**dict.fromkeys(names), "values": {}}
    place = {name: getattr(line, name) for name in names}
    if isinstance(line, Reading):
        return {**place, "values": dict(line.values)}
    named = {name: getattr(line, name) for name in MEASURED}
    return {**place, "values": {name: value for name, value in named.items() if _is_finite(value)}}


def _is_finite(value: float | None) -> bool:
    """Whether a value was measured: JSON has no form for a loss that is not a number."""
    return value is not None and math.isfinite(value)
