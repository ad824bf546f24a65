"""An interrupted and resumed run against one that was left alone, on two ranks, bit for bit."""

import json
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
    assert "resuming after epoch 1, step 3" in log
    start, *rest = curve(resumed)
    assert start[:3] == ("start", 3, 2)
    assert rest == [entry for entry in curve(whole) if entry[2] > 1]
    last = Checkpoint.load(resumed / "checkpoints" / "last.pt")
    assert differing(last, newest) == []
    assert last.best_accuracy == newest.best_accuracy

    # Cut off after its last epoch it ends.
    again = run("cut-off", resume_dir=str(resumed / "checkpoints"))
    start, end = curve(again)
    assert start[:3] == ("start", 9, 3)
    assert end == curve(whole)[-1]
    ours = Checkpoint.load(again / "checkpoints" / "last.pt")
    assert (ours.epoch, ours.accuracy, ours.loss) == (3, last.accuracy, last.loss)
    assert differing(ours, last) == []


# Rank 1 dies without a word in its fourth step, as soon as there is a checkpoint of an earlier one.
KILLED = """
import os, signal, time
from pathlib import Path

if os.environ.get("OMPI_COMM_WORLD_RANK") == "1":
    from trainer.learner import Learner

    steps, step = iter(range(1, 100)), Learner.step

    def killed(*arguments):
        number = next(steps)
        while number >= 4:
            if list(Path(__file__).parent.glob("checkpoints/epoch-0-step-*.pt")):
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.01)
        return step(*arguments)

    Learner.step = killed
"""


def test_killed_within_an_epoch_it_ends_as_if_left_alone(
    run: Callable[..., Path], start: Callable[..., Path]
) -> None:
    longer = {"epochs": 2, "train_images": 96}
    whole = run("whole", **longer)

    killed = start("killed", **longer, checkpoint_seconds=1e-9)
    # Python reads it at every start.
    (killed / "sitecustomize.py").write_text(KILLED)
    (killed / "environment").write_text(f"PYTHONPATH={killed}\n")
    assert launch(killed).wait(timeout=TIMEOUT) != 0
    assert [line[:3] for line in curve(killed)][-1] == ("step", 3, 1)

    resumed = run("resumed", **longer, resume_dir=str(killed / "checkpoints"))
    first, *rest = curve(resumed)
    assert first[0] == "start"
    assert first[1] in (1, 2, 3)
    assert rest == [line for line in curve(whole) if line[1] > first[1]]
    newest, last = (Checkpoint.load(path / "checkpoints/last.pt") for path in (whole, resumed))
    assert differing(last, newest) == []
