"""A fault that is put into a whole run, and all that must hold of every one.

Most faults are a `Fault`, a line or two in a list: what is done to which node while the run trains,
and how the run must end. Others, of which more than one command is a part, are tests of their own
and end with `Ledger.conclude`.
"""

import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import formats
from commands import BackgroundRun, Outcome
from machines import docker, in_machine, machine
from trainings import LONG

from faults.evidence import left_behind, logs_at_home, logs_on_nodes, node_of
from faults.table import Record

SUCCEEDED = frozenset({"succeeded"})

Act = Callable[[BackgroundRun], object]


def in_container(host: str, command: str) -> Act:
    """Run a command in the run's container on a node."""
    return lambda run: run.in_container(host, command)


def on_machine(host: str, command: str) -> Act:
    """Run a shell command as root on a node; {run} in it is the run's id."""
    return lambda run: in_machine(host, command.replace("{run}", run.run_id))


def to_machine(host: str, *arguments: str) -> Act:
    """Do something to a node as a whole: `docker ARGUMENTS... node`."""
    return lambda run: docker(*arguments, machine(host))


def to_rank(rank: int, signal: str) -> Act:
    """Send a signal to the process of a rank."""

    def act(run: BackgroundRun) -> None:
        host = node_of(rank)
        run.in_container(host, f"kill -{signal} {run.rank_pid(rank, host)}")

    return act


def nothing(_: object) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Fault:
    """A fault in a run that trains on two nodes.

    Attributes:
        case: its name in docs/faults.md.
        strike: what is done to the run when its first step is done.
        ends: the codes of the diagnosis of which the run must have one, or "succeeded".
        host: the node that must be blamed; empty for a run that goes on.
        options: what the run is started with.
        setting: surroundings of the whole run, from before its start until all is checked.
        prepare: what must be done just before the strike, and is no part of its time.
        mend: repairs the node after the end of the run; it is done whatever happens.
        seconds: until the end of the run must have been noticed.
        says: patterns that the output must show.
        ranks_say: pattern that the log of every rank must show.
        also: checks of this fault alone, made within its setting.
    """

    case: str
    strike: Act
    ends: frozenset[str]
    host: str = ""
    options: Mapping[str, object] = field(default_factory=lambda: LONG)
    setting: Callable[[], AbstractContextManager[object]] = nullcontext
    prepare: Act = nothing
    mend: Act = nothing
    seconds: float = 60
    says: tuple[str, ...] = ()
    ranks_say: str = ""
    also: Act = nothing


class Ledger:
    """Checks what must hold after every fault, and records what was measured."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def prove(self, fault: Fault) -> None:
        """Put a fault into a run of its own and check everything that is said of it."""
        with fault.setting():
            run = BackgroundRun(**fault.options).trains()
            fault.prepare(run)
            logs = logs_on_nodes(run)
            struck_at = time.time()
            try:
                fault.strike(run)
                outcome = run.finish()
                # Mending may bring more of the run home.
                end = self._check_end(fault, run, outcome)
            finally:
                fault.mend(run)
            seconds = None if fault.ends == SUCCEEDED else run.noticed_at() - struck_at
            self.conclude(fault.case, run, end, seconds, logs)
            assert seconds is None or seconds < fault.seconds
            for pattern in fault.says:
                assert re.search(pattern, outcome.output), pattern
            for rank in logs:
                assert re.search(
                    fault.ranks_say, (run.directory / f"logs/rank-{rank}.log").read_text()
                )
            fault.also(run)

    def _check_end(self, fault: Fault, run: BackgroundRun, outcome: Outcome) -> str:
        """Check exit status and diagnosis; returns the diagnosis' code, or "succeeded"."""
        summary = run.summary()
        assert "Traceback" not in outcome.output
        assert formats.errors(run.directory) == []
        if fault.ends == SUCCEEDED:
            assert (outcome.status, summary["status"]) == (0, "succeeded")
            return "succeeded"
        assert (outcome.status, summary["status"]) == (1, "failed")
        diagnosis = summary["diagnosis"]
        assert diagnosis["signature"] in fault.ends, diagnosis
        assert diagnosis["host"] == fault.host, diagnosis
        assert diagnosis["proof"]
        for words in (fault.host, diagnosis["cause"], diagnosis["remedy"]):
            assert words in outcome.output
        return str(diagnosis["signature"])

    def conclude(
        self,
        case: str,
        run: BackgroundRun,
        end: str,
        seconds: float | None = None,
        logs: Mapping[int, str] | None = None,
    ) -> None:
        """Measure what a run has left and brought home, record it, and check it.

        Args:
            end: how it ended, for the table.
            seconds: until that was noticed.
            logs: the ranks' logs as the nodes had them when the fault struck; without it, the log
                of every rank must be at home, whatever the nodes had.
        """
        left = left_behind()
        at_home = logs_at_home(run, {0: "", 1: ""} if logs is None else logs)
        self.records.append(
            Record(
                case=case,
                seconds=seconds,
                end=end,
                left=left,
                logs=sum(log.complete for log in at_home),
                ranks=len(at_home),
                last_lines=[log.last_line for log in at_home],
                date=time.strftime("%Y-%m-%d"),
            )
        )
        assert left == []
        for log in at_home:
            assert log.complete, log
