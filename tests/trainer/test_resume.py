"""An interrupted and resumed run against one that was left alone, on two ranks, bit for bit."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from mpi_ranks import TIMEOUT, launch

from trainer.checkpoint import Checkpoint

pytestmark = pytest.mark.data


@pytest.fixture
def start(config: dict[str, Any], make_run_dir: Callable[..., Path]) -> Callable[..., Path]:
    """Ask for three epochs with all that has a state: dropout, momentum, averages, mixing."""

    def ask(name: str, **changes: Any) -> Path:
        document = {
            **config,
            **{"model": "cnn_a", "optimizer": "sgd", "ema": 0.9, "mixup": 0.2},
            **{"epochs": 3, "batch_per_rank": 8, "train_images": 48, "log_every_steps": 1},
            **{"learning_rate": 0.01, "deterministic": True},
            **changes,
        }
        return make_run_dir(document, name)

    return ask


@pytest.fixture
def run(start: Callable[..., Path]) -> Callable[..., Path]:
    """Train to the end."""

    def train(name: str, **changes: Any) -> Path:
        run_dir = start(name, **changes)
        status = launch(run_dir).wait(timeout=TIMEOUT)
        assert status == 0, (run_dir / "logs" / "rank-0.log").read_text()
        return run_dir

    return train


def curve(run_dir: Path) -> list[tuple[Any, ...]]:
    """All that is measured of learning, without times."""
    lines = map(json.loads, (run_dir / "metrics.jsonl").read_text().splitlines())
    keys = (
        "event",
        "step",
        "epoch",
        "loss",
        "validation_loss",
        "test_loss",
        "best_test_loss",
        "lr",
    )
    return [tuple(line.get(key) for key in keys) for line in lines]


def tensors(value: Any) -> list[torch.Tensor]:
    """Every tensor in nested state, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    values = value.values() if isinstance(value, dict) else value
    return [
        tensor
        for entry in values
        if isinstance(entry, dict | list | torch.Tensor)
        for tensor in tensors(entry)
    ]


def differing(one: Checkpoint, other: Checkpoint) -> list[str]:
    """The parts of two checkpoints that are not equal to the bit."""
    parts = []
    for part in ("model", "optimizer", "ema", "rng"):
        ours, theirs = tensors(getattr(one, part)), tensors(getattr(other, part))
        assert len(ours) == len(theirs) > 0
        if not all(map(torch.equal, ours, theirs)):
            parts.append(part)
    return parts


def test_resumed_equals_uninterrupted(run: Callable[..., Path], tmp_path: Path) -> None:
    whole = run("whole")
    # Twice the same request gives twice the same numbers.
    assert curve(run("again")) == curve(whole)

    # As an interruption in the third epoch leaves it, and the disk has spoilt the newest.
    interrupted = tmp_path / "interrupted"
    (whole / "checkpoints").rename(interrupted)
    newest = Checkpoint.load(interrupted / "last.pt")
    (interrupted / "epoch-3.pt").unlink()
    content = bytearray((interrupted / "epoch-2.pt").read_bytes())
    content[len(content) // 2] ^= 1
    (interrupted / "epoch-2.pt").write_bytes(content)

    resumed = run("resumed", resume_dir=str(interrupted))

    log = (resumed / "logs" / "rank-0.log").read_text()
    assert "refused: cannot read the checkpoint" in log
    assert "going on after epoch 1, step 3" in log
    start, *rest = curve(resumed)
    assert start[:3] == ("start", 3, 2)
    assert rest == [entry for entry in curve(whole) if entry[2] > 1]
    last = Checkpoint.load(resumed / "checkpoints" / "last.pt")
    assert differing(last, newest) == []
    assert last.best_accuracy == newest.best_accuracy


def test_cut_off_after_its_last_epoch_it_ends(run: Callable[..., Path], tmp_path: Path) -> None:
    whole = run("whole")
    again = run("again", resume_dir=str(whole / "checkpoints"))
    start, end = curve(again)
    assert start[:3] == ("start", 9, 3)
    assert end == curve(whole)[-1]
    ours, theirs = (Checkpoint.load(each / "checkpoints/last.pt") for each in (again, whole))
    assert (ours.epoch, ours.accuracy, ours.loss) == (3, theirs.accuracy, theirs.loss)
    assert differing(ours, theirs) == []


def test_killed_within_an_epoch_it_ends_as_if_left_alone(
    run: Callable[..., Path], start: Callable[..., Path]
) -> None:
    # An epoch has 400 steps, and there are a few of them between two checkpoints: on a machine of
    # any speed one is written long before the epoch ends.
    longer = {"epochs": 2, "train_images": 800, "batch_per_rank": 1, "log_every_steps": 2}
    whole = run("whole", **longer)

    killed = start("killed", **longer, checkpoint_seconds=0.02)
    process = launch(killed)
    deadline = time.monotonic() + TIMEOUT
    while not list(killed.glob("checkpoints/epoch-*-step-*.pt")):
        assert time.monotonic() < deadline
        assert process.poll() is None, "it ended without a checkpoint within an epoch"
        time.sleep(0.01)
    ranks = json.loads((killed / "world.json").read_text())["ranks"]
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    assert process.wait(timeout=TIMEOUT) != 0

    resumed = run("resumed", **longer, resume_dir=str(killed / "checkpoints"))
    first, *rest = curve(resumed)
    lines = curve(whole)
    assert 0 < first[1] < 800
    # Its first step has a line that the other one may not have.
    assert rest[1:] == lines[-len(rest[1:]) :]
    assert rest[1][1] <= first[1] + 4
    newest, last = (Checkpoint.load(path / "checkpoints/last.pt") for path in (whole, resumed))
    assert differing(last, newest) == []
