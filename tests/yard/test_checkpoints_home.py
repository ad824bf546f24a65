"""Checkpoints that come home while a run goes on, and what goes with those that are removed."""

import io
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from yard.core.context import Context
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.operations import checkpoints
from yard.operations.checkpoints import CheckpointCarrier
from yard.plays.contract import OFFER_CHECKPOINTS
from yard.plays.events import Event, Outcome, TaskFailure

Play = Callable[..., Outcome]


class Node:
    """What the first node has, in place of playbooks/checkpoints.yml.

    Attributes:
        files: its checkpoints, by their paths at home.
        failure: why the playbook fails; "" where it does not.
        limits: the hosts that each playbook ran on.
    """

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.failure = ""
        self.limits: list[list[str]] = []

    def play(
        self,
        context: Context,
        playbook: str,
        variables: dict[str, Any],
        on_event: Callable[[Event], None],
        *,
        limit: list[str],
        **rest: Any,
    ) -> Outcome:
        self.limits.append(limit)
        if self.failure:
            failed = TaskFailure("node1", "Bring them home", "", "", self.failure, False)
            return Outcome("failed", (failed,), {})
        home = Path(variables["training_run_collect_dir"])
        for name, text in self.files.items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            if text.startswith("-> "):
                path.symlink_to(text[3:])
            else:
                path.write_text(text)
        result = {"names": list(self.files)}
        event = Event("runner_on_ok", 0.0, action=OFFER_CHECKPOINTS, host="node1", result=result)
        on_event(event)
        return Outcome("successful", (), {})


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node()
    monkeypatch.setattr(checkpoints, "play", node.play)
    monkeypatch.setattr(checkpoints, "SHORTEST_PAUSE", 0.0)
    monkeypatch.setattr(checkpoints, "SHARE", 1e9)
    return node


@pytest.fixture
def carrier(tmp_path: Path) -> CheckpointCarrier:
    run = tmp_path / "runs/r"
    run.mkdir(parents=True)
    console = Console(file=io.StringIO())
    context = Context(Project(tmp_path), tmp_path, console, Interrupts())
    return CheckpointCarrier(context, run, tmp_path)


def look(carrier: CheckpointCarrier, newest: float) -> str:
    """One poll, and the end of what it has begun."""
    said = carrier.look(newest, ["node1"])
    if carrier._thread is not None:
        carrier._thread.join()
    return said


def at_home(carrier: CheckpointCarrier) -> list[str]:
    return sorted(path.name for path in (carrier.run / "checkpoints").iterdir())


def test_they_come_when_there_are_new_ones(
    carrier: CheckpointCarrier, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "SHORTEST_PAUSE", 60.0)
    assert look(carrier, 0.0) == ""
    assert node.limits == []
    node.files = {"checkpoints/epoch-1.pt": "1", "checkpoints/last.pt": "-> epoch-1.pt"}
    look(carrier, 100.0)
    look(carrier, 100.0)
    assert node.limits == [["node1"]]
    assert at_home(carrier) == ["epoch-1.pt", "last.pt"]


def test_what_the_run_has_removed_goes_here_too(carrier: CheckpointCarrier, node: Node) -> None:
    (carrier.run / "checkpoints").mkdir()
    (carrier.run / "checkpoints/epoch-9.pt").touch()  # of an attempt before
    node.files = {"checkpoints/epoch-1.pt": "1", "checkpoints/best.pt": "-> epoch-1.pt"}
    look(carrier, 100.0)
    node.files = {"checkpoints/epoch-2.pt": "2", "checkpoints/best.pt": "-> epoch-2.pt"}
    look(carrier, 200.0)
    assert at_home(carrier) == ["best.pt", "epoch-2.pt", "epoch-9.pt"]
    # It was removed while they were brought, and a link leads there still.
    node.files = {"checkpoints/epoch-3.pt": "3", "checkpoints/best.pt": "-> epoch-2.pt"}
    look(carrier, 300.0)
    assert at_home(carrier) == ["best.pt", "epoch-2.pt", "epoch-3.pt", "epoch-9.pt"]


def test_those_of_working_directories_come_and_go_too(
    carrier: CheckpointCarrier, node: Node
) -> None:
    (carrier.run / "workdir").mkdir()
    (carrier.run / "workdir/kept.txt").touch()  # of an attempt before
    node.files = {"workdir/a/ckpt-1": "1", "nodes/node2/workdir/ckpt-1": "1"}
    look(carrier, 100.0)
    node.files = {"workdir/a/ckpt-2": "2", "nodes/node2/workdir/ckpt-1": "1"}
    look(carrier, 200.0)
    files = [path for path in carrier.run.rglob("*") if path.is_file() and path.suffix != ".log"]
    assert sorted(str(path.relative_to(carrier.run)) for path in files) == [
        "nodes/node2/workdir/ckpt-1",
        "workdir/a/ckpt-2",
        "workdir/kept.txt",
    ]


@pytest.mark.parametrize("ends", [False, True])
def test_what_comes_with_the_end_of_the_run_stays(
    ends: bool, carrier: CheckpointCarrier, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end brings all files home while the last checkpoints may be on their way."""
    node.files = {"checkpoints/epoch-1.pt": "1"}
    look(carrier, 100.0)
    node.files = {"checkpoints/epoch-2.pt": "2"}

    def slow(*arguments: Any, **options: Any) -> Outcome:
        outcome = node.play(*arguments, **options)
        if ends:
            carrier.run_ends()
        (carrier.run / "workdir").mkdir()
        for name in ("checkpoints/epoch-3.pt", "workdir/cache.txt"):
            (carrier.run / name).touch()
        return outcome

    monkeypatch.setattr(checkpoints, "play", slow)
    look(carrier, 200.0)
    # Once the end has begun, it alone knows what has been removed.
    assert at_home(carrier) == [*(["epoch-1.pt"] if ends else []), "epoch-2.pt", "epoch-3.pt"]
    assert (carrier.run / "workdir/cache.txt").exists()


def test_why_they_could_not_come_is_said_once(carrier: CheckpointCarrier, node: Node) -> None:
    node.failure = "no space left"
    assert look(carrier, 100.0) == ""
    node.failure = ""
    assert look(carrier, 100.0) == "no space left"
    assert look(carrier, 100.0) == ""


def test_an_error_of_this_machine_does_not_end_the_run(
    carrier: CheckpointCarrier, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **options: object) -> Outcome:
        raise RuntimeError("ansible-runner is broken")

    monkeypatch.setattr(checkpoints, "play", broken)
    look(carrier, 100.0)
    assert look(carrier, 100.0) == "RuntimeError: ansible-runner is broken"


def test_one_at_a_time_and_with_pauses(
    carrier: CheckpointCarrier, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()

    def slow(*arguments: Any, **options: Any) -> Outcome:
        goes_on.wait(30)
        return node.play(*arguments, **options)

    monkeypatch.setattr(checkpoints, "play", slow)
    carrier.look(100.0, ["node1"])
    carrier.look(200.0, ["node1"])
    assert node.limits == []
    monkeypatch.setattr(checkpoints, "SHORTEST_PAUSE", 3600.0)
    goes_on.set()
    assert carrier._thread is not None
    carrier._thread.join()
    look(carrier, 300.0)
    assert len(node.limits) == 1


def test_samples_come_once_a_minute_and_keep_no_checkpoint_waiting(
    carrier: CheckpointCarrier, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 5000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(checkpoints, "SHORTEST_PAUSE", 60.0)
    look(carrier, 0.0)
    now += 59
    look(carrier, 0.0)
    assert node.limits == [], "a run of a minute needs none"
    now += 1
    look(carrier, 0.0)
    assert len(node.limits) == 1
    now += 1
    look(carrier, 100.0)
    assert len(node.limits) == 2, "a checkpoint comes at once"
    now += 59
    look(carrier, 200.0)
    assert len(node.limits) == 2
    now += 1
    look(carrier, 100.0)
    look(carrier, 100.0)
    assert len(node.limits) == 3, "samples come without new checkpoints"


def test_the_end_of_the_run_ends_what_is_on_its_way(
    carrier: CheckpointCarrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(*arguments: Any, unwanted: Callable[[], bool], **options: Any) -> Outcome:
        while not unwanted():
            pass
        return Outcome("cancelled", (), {})

    monkeypatch.setattr(checkpoints, "play", endless)
    carrier.look(100.0, ["node1"])
    carrier.end()
    assert carrier.look(100.0, ["node1"]) == ""
