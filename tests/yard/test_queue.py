"""A request whose nodes others have."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest
from rich.console import Console
from test_status import cluster, entry

from yard.core.context import Context
from yard.core.errors import ClusterError, Interrupted
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.operations import queue
from yard.plays.events import Outcome, Problem, TaskFailure

HELD = Problem("held", "it is held", "node2")
TOO_FEW = Problem("too_few_nodes", "Too few nodes: 2 needed, 1 fit", None)
DRAINED = Problem("drained", "it is drained", "node4")
DEAD = Problem("unreachable", "no answer", "node3")


def failed(*problems: Problem) -> Outcome:
    failure = TaskFailure("node1", "Choose", "", "", "node2: it is held", False, problems)
    return Outcome("failed", (failure,), {})


@dataclass
class Follower:
    directory: Path
    outcomes: list[Outcome]
    runs: int = field(default=0)
    waits: bool = False

    def run(self) -> Outcome:
        self.runs += 1
        return self.outcomes.pop(0)


@pytest.mark.parametrize(
    ("problems", "held"),
    [
        ((HELD, TOO_FEW), True),
        ((HELD,), True),
        ((TOO_FEW, DEAD, HELD), False),
        ((TOO_FEW,), False),
        ((TOO_FEW, DRAINED, HELD), True),
        ((TOO_FEW, DRAINED), False),
    ],
)
def test_waiting_helps_only_where_nothing_but_runs_is_in_the_way(
    problems: tuple[Problem, ...], held: bool
) -> None:
    assert queue.nodes_are_held(failed(*problems)) == held
    assert not queue.nodes_are_held(Outcome("successful", (), {}))


def test_it_asks_again_until_the_nodes_are_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(record=True, width=160)
    context = Context(Project(tmp_path), tmp_path, console, Interrupts())
    state = cluster(tmp_path, node2=[entry("20261120T000000Z_other", owner="ada@desk")])
    waits: list[float] = []
    monkeypatch.setattr(queue, "ask_nodes", lambda context: state)

    def wait(context: Context, run: Path, seconds: float) -> bool:
        waits.append(seconds)
        return True

    monkeypatch.setattr(queue, "wait_unless_interrupted", wait)
    held, done = failed(HELD), Outcome("successful", (), {})
    follower: Any = Follower(tmp_path, [held, held, done])
    assert queue.have_nodes(context, follower, held, waits=True)
    assert (follower.runs, waits) == (3, [15, 30, 60])
    assert follower.waits
    text = console.export_text()
    assert text.count("asked again after 15 s") == 1
    assert text.count("ada@desk") == 1, "who has them is said once"
    follower = Follower(tmp_path, [])
    assert not queue.have_nodes(context, follower, held, waits=False)
    assert "WAIT=1 waits" in console.export_text()
    context.interrupts.request()
    assert not queue.have_nodes(context, follower, held, waits=True)
    assert follower.runs == 0


def test_nodes_that_cannot_be_asked_are_waited_for_and_ctrl_c_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(record=True, width=160)
    context = Context(Project(tmp_path), tmp_path, console, Interrupts())

    def lost(context: Context) -> NoReturn:
        raise ClusterError("the nodes could not be asked")

    monkeypatch.setattr(queue, "ask_nodes", lost)
    monkeypatch.setattr(queue, "wait_unless_interrupted", lambda *_: True)
    follower: Any = Follower(tmp_path, [Outcome("successful", (), {})])
    assert queue.have_nodes(context, follower, failed(HELD), waits=True)
    assert "Waiting for nodes; the nodes could not be asked" in console.export_text()

    def interrupted(context: Context) -> NoReturn:
        context.interrupts.request()
        raise Interrupted("interrupted")

    monkeypatch.undo()
    monkeypatch.setattr(queue, "ask_nodes", interrupted)
    assert not queue.have_nodes(context, Follower(tmp_path, []), failed(HELD), waits=True)  # type: ignore[arg-type]
    assert console.export_text() == "Interrupted; nothing was started.\n"
