"""Checkpoints that are written while training goes on."""

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from trainer import checkpointing
from trainer.checkpoint import Checkpoint, CheckpointFolder
from trainer.checkpointing import Checkpointer
from trainer.config import TrainConfig
from trainer.engines import IndependentEngine
from trainer.heartbeat import WAITS
from trainer.learner import Learner
from trainer.meter import Meter
from trainer.optimizer import adamw
from trainer.progress import Progress
from trainer.step import TrainStep


class Clock:
    """A clock that is set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(checkpointing, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def learner() -> Learner:
    model = nn.Sequential(nn.Flatten(), nn.Linear(3, 2))
    return Learner(model, None, TrainStep(model, adamw(model, 0.1, 0.0), "fp32"))


@pytest.fixture
def checkpointer(
    config: dict[str, Any], learner: Learner, tmp_path: Path, clock: Clock
) -> Checkpointer:
    asked = {**config, "run_dir": str(tmp_path), "checkpoint_seconds": 30}
    settings = TrainConfig.from_json(asked)
    return Checkpointer(settings, IndependentEngine(), learner, {"classes": 2}, -1.0)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Writing waits until this is set."""
    gate, add = threading.Event(), CheckpointFolder.add

    def wait_and_add(self: CheckpointFolder, *arguments: Any) -> None:
        assert gate.wait(60)
        add(self, *arguments)

    monkeypatch.setattr(CheckpointFolder, "add", wait_and_add)
    yield gate
    gate.set()


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Checkpoint, path: Path, moved: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Checkpoint, "save", fail)


def set_weights(learner: Learner, value: float) -> None:
    with torch.no_grad():
        for parameter in learner.network.parameters():
            parameter.fill_(value)


def save_and_fail(checkpointer: Checkpointer) -> None:
    with checkpointer:
        checkpointer.save(FIRST, 0.5, 1.5)
        raise ZeroDivisionError


FIRST, SECOND = Progress(10, 1, 640), Progress(15, 1, 960, 320)


def test_is_due_by_the_clock_from_the_last_one_on(checkpointer: Checkpointer, clock: Clock) -> None:
    clock.now = 29
    assert not checkpointer.is_due()
    clock.now = 30
    assert checkpointer.is_due()
    checkpointer.save(FIRST, 0.5, 1.5)
    checkpointer.finish()
    assert not checkpointer.is_due()
    clock.now = 60
    assert checkpointer.is_due()


def test_zero_seconds_and_other_ranks_never_take_one_by_the_clock(
    config: dict[str, Any], learner: Learner, tmp_path: Path, clock: Clock
) -> None:
    engine = IndependentEngine()
    never = TrainConfig.from_json({**config, "run_dir": str(tmp_path), "checkpoint_seconds": 0})
    checkpointers = [Checkpointer(never, engine, learner, {}, -1.0)]
    engine.rank = 1
    often = replace(never, checkpoint_seconds=1)
    checkpointers.append(Checkpointer(often, engine, learner, {}, -1.0))
    clock.now = 1e9
    assert [one.is_due() for one in checkpointers] == [False, False]


def test_without_a_number_it_is_due_as_often_as_is_worth_its_cost(
    config: dict[str, Any],
    learner: Learner,
    tmp_path: Path,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = {**config, "run_dir": str(tmp_path), "checkpoint_seconds": None}
    settings = TrainConfig.from_json({**asked, "seconds_between_failures": 10_000})
    by_itself = Checkpointer(settings, IndependentEngine(), learner, {"classes": 2}, -1.0)
    # Of the writing thread: half a second for each checkpoint.
    times = itertools.count(0.0, 0.5)
    monkeypatch.setattr(checkpointing, "thread_time", lambda: next(times))
    clock.now = 30
    assert by_itself.is_due()
    by_itself.save(FIRST, 0.5, 1.5)
    by_itself.finish()
    assert "a checkpoint every 100 s within an epoch: one costs 0.5 s" in capsys.readouterr().out
    clock.now = 129
    assert not by_itself.is_due()
    clock.now = 130
    assert by_itself.is_due()
    by_itself.save(SECOND, 0.5, 1.5)
    by_itself.finish()
    assert capsys.readouterr().out == ""


def test_training_goes_on_while_the_state_as_it_was_is_written(
    checkpointer: Checkpointer,
    learner: Learner,
    clock: Clock,
    held: threading.Event,
    tmp_path: Path,
) -> None:
    set_weights(learner, 1.0)
    checkpointer.save_within(SECOND, Meter(2.5, 320, 40))
    set_weights(learner, 2.0)
    clock.now = 1000
    # One at a time: the next one waits for its turn.
    assert not checkpointer.is_due()
    assert not list(tmp_path.rglob("*.pt"))
    held.set()
    checkpointer.finish()
    assert checkpointer.is_due()
    saved = Checkpoint.load(tmp_path / "checkpoints" / "epoch-1-step-15.pt")
    assert [set(saved.model[name].flatten().tolist()) for name in saved.model] == [{1.0}, {1.0}]
    assert saved.ranks == [{"loss": 2.5, "loss_images": 320, "right": 40, "model": {}}]
    assert (saved.images, saved.epoch_images, saved.data) == (960, 320, {"classes": 2})


def test_order_is_kept_and_the_end_waits(
    checkpointer: Checkpointer, held: threading.Event, tmp_path: Path
) -> None:
    with checkpointer:
        checkpointer.save_within(SECOND, Meter())
        threading.Timer(0.2, held.set).start()
        checkpointer.save(Progress(20, 2, 1280), 0.5, 1.5)
    names = {path.name for path in (tmp_path / "checkpoints").glob("*.pt")}
    assert names == {"epoch-2.pt", "last.pt", "best.pt"}


def test_error_waits_for_the_write_under_way(
    checkpointer: Checkpointer, held: threading.Event, tmp_path: Path
) -> None:
    threading.Timer(0.2, held.set).start()
    with pytest.raises(ZeroDivisionError):
        save_and_fail(checkpointer)
    assert Checkpoint.load(tmp_path / "checkpoints" / "last.pt").step == 10


@pytest.mark.parametrize("moves", [True, False])
def test_ranks_give_signs_of_life_while_a_slow_write_gets_on(
    moves: bool,
    checkpointer: Checkpointer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkpointing, "ROUND", 0.05)
    beats: list[bytes] = []
    monkeypatch.setattr(checkpointing, "beat", beats.append)
    is_slow = threading.Event()

    def add(self: CheckpointFolder, one: Checkpoint, is_best: bool, moved: Any) -> None:
        for _ in range(8):
            if moves:
                moved()
            is_slow.wait(0.1)

    monkeypatch.setattr(CheckpointFolder, "add", add)
    checkpointer.save(FIRST, 0.5, 1.5)
    checkpointer.finish()
    assert set(beats) == ({WAITS} if moves else set())
    assert len(beats) >= (4 if moves else 0)


@pytest.mark.parametrize(
    "then",
    [
        lambda checkpointer: checkpointer.save(Progress(20, 2, 1280), 0.5, 1.5),
        lambda checkpointer: checkpointer.save_within(SECOND, Meter()),
        lambda checkpointer: checkpointer.finish(),
        lambda checkpointer: checkpointer.__exit__(None, None, None),
        lambda checkpointer: [None for _ in iter(checkpointer.is_due, None)],
    ],
    ids=["save", "save_within", "finish", "end", "is_due"],
)
def test_full_disk_ends_the_run_at_the_next_turn(
    then: Callable[[Checkpointer], Any], checkpointer: Checkpointer, full_disk: None
) -> None:
    checkpointer.save(FIRST, 0.5, 1.5)
    with pytest.raises(OSError, match="No space left on device"):
        then(checkpointer)


def test_error_of_the_run_wins_over_that_of_the_write(
    checkpointer: Checkpointer, full_disk: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ZeroDivisionError):
        save_and_fail(checkpointer)
    assert "the last checkpoint was not written: [Errno 28]" in capsys.readouterr().err


def test_the_best_is_put_into_the_learner_for_the_test(
    checkpointer: Checkpointer, learner: Learner
) -> None:
    weights = {1: 1.0, 2: 2.0}
    for epoch, accuracy in ((1, 0.5), (2, 0.4)):
        set_weights(learner, weights[epoch])
        checkpointer.save(Progress(epoch, epoch, 0, 0), accuracy, 1.5)
    checkpointer.finish()
    assert checkpointer.load_best(last_epoch=2) == 1
    state = learner.network.state_dict()
    assert [set(value.flatten().tolist()) for value in state.values()] == [{1.0}, {1.0}]


def test_without_a_validation_split_the_last_is_the_best(
    checkpointer: Checkpointer, learner: Learner
) -> None:
    for epoch in (1, 2):
        set_weights(learner, float(epoch))
        checkpointer.save(Progress(epoch, epoch, 0, 0), -1.0, 1.5)
    checkpointer.finish()
    assert checkpointer.load_best(last_epoch=2) == 2
    assert set(learner.network.state_dict()["1.bias"].tolist()) == {2.0}


def test_the_best_of_the_run_before_counts_where_none_is_better(
    checkpointer: Checkpointer, learner: Learner, config: dict[str, Any], tmp_path: Path
) -> None:
    set_weights(learner, 1.0)
    checkpointer.save(Progress(1, 1, 0, 0), 0.5, 1.5)
    checkpointer.finish()
    asked = {"run_dir": str(tmp_path / "next"), "resume_dir": str(tmp_path / "checkpoints")}
    settings = TrainConfig.from_json({**config, **asked})
    following = Checkpointer(settings, IndependentEngine(), learner, {}, 0.5)
    set_weights(learner, 2.0)
    following.save(Progress(2, 2, 0, 0), 0.4, 1.5)
    following.finish()
    assert following.load_best(last_epoch=2) == 1
    assert set(learner.network.state_dict()["1.bias"].tolist()) == {1.0}
