"""How a failed run is started again: on which nodes, after which wait, and how often."""

import io
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from yard_command import DATA

from yard.commands import train as training
from yard.core.context import Context
from yard.core.errors import Detached, RequestError
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.operations import retries
from yard.plays.inventory import Inventory
from yard.request.resolve import resolve
from yard.request.training import TrainRequest
from yard.runs.diagnosis import Diagnosis
from yard.runs.folder import STOP_MARK
from yard.runs.record import RunRecord
from yard.runs.retry import fault_of, worth_another
from yard.runs.signatures import GANG, NETWORK, NODE, load_signatures

pytestmark = pytest.mark.process

FAILED = DATA / "runs/killed"


@pytest.fixture
def launched(
    recorded: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, list[Mapping[str, Any]]]:
    """A failed run each of whose launches fails as the one before; and what they were given."""
    run = recorded("killed")
    given: list[Mapping[str, Any]] = []

    class Follower:
        def __init__(
            self,
            context: Context,
            run: Path,
            manifest: object,
            name: str,
            variables: Any,
            limit: Sequence[str],
            asks: bool,
        ) -> None:
            assert asks, "a Ctrl-C means what it meant in the first attempt"
            assert list(limit) == ["node1", "node2"]  # as the first attempt
            given.append(variables)

        def run(self) -> None:
            shutil.copytree(FAILED, run, dirs_exist_ok=True)

    monkeypatch.setattr(retries, "RunFollower", Follower)
    return run, given


def try_again(run: Path, local: Inventory, times: int) -> str:
    """Let a failed run be started again; return what is said."""
    said = io.StringIO()
    console = Console(file=said, width=200)
    context = Context(Project(run.parents[1]), run, console, Interrupts())
    job = resolve(TrainRequest(model="vit", nodes=2), local)
    retries.try_again(context, run, job, job.extravars(), times, ("node1", "node2"))
    return said.getvalue()


def the_cause(monkeypatch: pytest.MonkeyPatch, signature: str) -> None:
    """Have every failure be of that kind."""

    def found(record: RunRecord) -> Diagnosis | None:
        failure = worth_another(record)
        return failure and replace(failure, signature=signature)

    monkeypatch.setattr(retries, "worth_another", found)


def test_the_launch_is_told_how_often_each_node_was_at_fault(
    launched: tuple[Path, list[Mapping[str, Any]]], local: Inventory
) -> None:
    run, given = launched
    said = try_again(run, local, 3)
    assert [variables["training_run_failed"] for variables in given] == [
        {"node2": 1},
        {"node2": 2},
        {"node2": 3},
    ]
    assert all(variables["training_run_node_count"] == 2 for variables in given)
    assert said.count("Failed (node2: ") == 3
    assert "retries left: 0" in said
    assert sorted(path.name for path in (run / "attempts").iterdir()) == ["1", "2", "3"]


def test_no_node_is_at_fault_where_the_program_is(
    launched: tuple[Path, list[Mapping[str, Any]]],
    local: Inventory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    the_cause(monkeypatch, "python_error")
    run, given = launched
    try_again(run, local, 1)
    assert [variables["training_run_failed"] for variables in given] == [{}]


def test_where_the_network_was_at_fault_the_waits_double(
    launched: tuple[Path, list[Mapping[str, Any]]],
    local: Inventory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    the_cause(monkeypatch, "peer_unreachable")
    waits: list[float] = []

    def wait(context: Context, run: Path, seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) < 3  # then the user has had enough

    monkeypatch.setattr(retries, "wait_unless_interrupted", wait)
    run, given = launched
    said = try_again(run, local, 5)
    assert waits == [5.0, 10.0, 20.0]
    assert [variables["training_run_failed"] for variables in given] == [
        {"node2": 1},
        {"node2": 2},
    ]
    assert "The network was at fault. The next attempt starts in 20 s." in said


def test_where_too_few_nodes_are_fit_the_next_attempt_waits_for_one_to_be_back(
    launched: tuple[Path, list[Mapping[str, Any]]],
    local: Inventory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    the_cause(monkeypatch, "gang_incomplete")
    waits: list[float] = []

    def wait(context: Context, run: Path, seconds: float) -> bool:
        waits.append(seconds)
        return True

    monkeypatch.setattr(retries, "wait_unless_interrupted", wait)
    run, given = launched
    said = try_again(run, local, 2)
    assert waits == [5.0, 10.0]
    assert [variables["training_run_failed"] for variables in given] == [{}, {}]
    assert "Too few nodes are fit, and one may come back. The next attempt starts in 10 s." in said


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_wait_ends_at_once_when_the_user_wants_to_stop(elsewhere: bool, tmp_path: Path) -> None:
    context = Context(Project(tmp_path), tmp_path, Console(file=io.StringIO()), Interrupts())
    assert retries.wait_unless_interrupted(context, tmp_path, 0.0)
    if elsewhere:
        (tmp_path / STOP_MARK).touch()
    else:
        context.interrupts.request()
    assert not retries.wait_unless_interrupted(context, tmp_path, 3600.0)
    # What comes next, another attempt or the end, knows of it.
    assert context.interrupts.requested


def test_a_run_that_is_stopped_while_it_waits_is_not_launched_again(
    launched: tuple[Path, list[Mapping[str, Any]]],
    local: Inventory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    the_cause(monkeypatch, "gang_incomplete")
    run, given = launched
    monkeypatch.setattr(retries, "duration", lambda seconds: (run / STOP_MARK).touch())
    try_again(run, local, 3)
    assert given == []


def test_what_is_at_fault_is_one_of_those_that_are_known() -> None:
    faults = {signature.name: signature.fault for signature in load_signatures()}
    assert set(faults.values()) == {NODE, NETWORK, GANG, None}
    assert (faults["host_unreachable"], faults["peer_silent"]) == (NODE, NETWORK)


def test_a_failure_that_nobody_knows_is_no_nodes_fault(record: Callable[[str], RunRecord]) -> None:
    failure = worth_another(record("killed"))
    assert failure is not None
    assert fault_of(failure) == NODE
    assert fault_of(replace(failure, signature=None)) is None


def test_who_leaves_a_run_is_told_that_it_is_not_started_again(
    local: Inventory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Left:
        def __init__(self, *given: object, asks: bool) -> None:
            assert asks

        def run(self) -> None:
            raise Detached

    left: list[Path] = []
    monkeypatch.setattr(training, "read_inventory", lambda *_: local)
    monkeypatch.setattr(training, "make_ready", lambda context, inventory, job: inventory)
    monkeypatch.setattr(training, "RunFollower", Left)
    monkeypatch.setattr(training, "leave", lambda context, run: left.append(run))
    for retries_, told in ((0, False), (2, True)):
        said = io.StringIO()
        context = Context(
            Project(tmp_path), local.path, Console(file=said, width=200), Interrupts()
        )
        request = TrainRequest(model="vit", nodes=2, retries=retries_)
        with pytest.raises(Detached):
            training.train(context, request, 0.0)
        assert ("it is not started again" in said.getvalue()) == told
    assert len(left) == 2


def test_a_run_that_was_deleted_while_nodes_were_made_ready_is_not_begun_anew(
    recorded: Callable[[str], Path], local: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = recorded("killed")
    (earlier / "checkpoints").mkdir()
    for name in ("epoch-1.pt", "epoch-1.pt.sha256"):
        (earlier / "checkpoints" / name).touch()
    runs = earlier.parent

    def make_ready(context: Context, inventory: Inventory, job: object) -> Inventory:
        shutil.rmtree(earlier)
        return inventory

    monkeypatch.setattr(training, "read_inventory", lambda *_: local)
    monkeypatch.setattr(training, "make_ready", make_ready)
    context = Context(Project(runs.parent), local.path, Console(file=io.StringIO()), Interrupts())
    held_out = {"validation_fraction": 0}
    request = TrainRequest(model="vit", nodes=2, epochs=9, resume=earlier.name, options=held_out)
    with pytest.raises(RequestError, match="has no checkpoint to resume from"):
        training.train(context, request, 0.0)
    assert list(runs.iterdir()) == []
