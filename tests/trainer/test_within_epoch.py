"""Checkpoints within an epoch: gone on from in the same world to the bit, and in another one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mpi_ranks import mpirun
from test_resume import differing

from trainer.checkpoint import Checkpoint

pytestmark = pytest.mark.data

PROGRAM = Path(__file__).parent / "programs" / "trainings.py"

IMAGES, BATCH, EPOCHS = 115, 8, 2
# Steps of an epoch on two ranks; three images are left over.
STEPS = 7
# After the first step, in the middle of an epoch, early in the next one, at the very end.
PLACES = (1, 4, 8, 14)

Run = Callable[..., dict[str, Path]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("within")


@pytest.fixture
def run(config: dict[str, Any], small_cifar10: Path, folder: Path) -> Run:
    """Train, one after the other on the same ranks, what differs in these keys, by name."""

    def train(ranks: int, **changes: dict[str, Any]) -> dict[str, Path]:
        run_dirs = {}
        for name, change in changes.items():
            run_dirs[name] = folder / name
            run_dirs[name].mkdir()
            document = {
                **config,
                **{"model": "cnn_a", "optimizer": "sgd", "ema": 0.9, "mixup": 0.2},
                **{"epochs": EPOCHS, "batch_per_rank": BATCH, "train_images": IMAGES},
                **{"learning_rate": 0.01, "deterministic": True, "log_every_steps": 2},
                **{"world_size": ranks, "reference_batch": 16, "checkpoint_seconds": 1},
                **{"data_dir": str(small_cifar10), "run_dir": str(run_dirs[name])},
                **change,
            }
            (run_dirs[name] / "config.json").write_text(json.dumps(document))
        done = mpirun("python3", PROGRAM, *run_dirs.values(), ranks=ranks)
        assert done.returncode == 0, done.stdout + done.stderr
        return run_dirs

    return train


@pytest.fixture
def two_ranks(run: Run, folder: Path) -> dict[str, Path]:
    """A run left alone, one with checkpoints, and what went on from them on two ranks."""
    return run(
        2,
        alone={"checkpoint_seconds": 0},
        saved={},
        **{f"from-{step}": {"resume_dir": str(folder / f"saved/taken/{step}")} for step in PLACES},
    )


def curve(run_dir: Path) -> list[dict[str, Any]]:
    """All that is measured of learning, without times."""
    keys = (
        "event",
        "step",
        "steps",
        "epoch",
        "images",
        "loss",
        "validation_loss",
        "test_loss",
        "lr",
    )
    lines = map(json.loads, (run_dir / "metrics.jsonl").read_text().splitlines())
    return [{key: line.get(key) for key in keys} for line in lines]


def dealt(run_dir: Path, ranks: int, epoch: int) -> list[int]:
    """The images of an epoch that all ranks were dealt, step by step."""
    steps = zip(
        *(
            [
                images
                for number, *images in map(json.loads, path.read_text().splitlines())
                if number == epoch
            ]
            for path in (run_dir / f"dealt-{rank}.jsonl" for rank in range(ranks))
        ),
        strict=True,
    )
    return [image for step in steps for images in step for image in images]


def check_same_world(alone: Path, resumed: Path, step: int) -> None:
    """See that a run that went on after that step is to the bit what it would have been."""
    lines = curve(alone)
    (before,) = [
        number
        for number, line in enumerate(lines)
        if line["event"] == "step" and line["step"] == step
    ]
    start, *rest = curve(resumed)
    assert (start["event"], start["step"], start["images"]) == ("start", step, step * 2 * BATCH)
    # The first step after it always has a line, and so has every second one.
    if rest[0]["step"] == step + 1 and (step + 1) % 2:
        del rest[0]
    assert rest == lines[before + 1 :]
    expected, last = (
        Checkpoint.load(path / "checkpoints" / "last.pt") for path in (alone, resumed)
    )
    assert differing(last, expected) == []
    assert (last.images, last.best_accuracy) == (expected.images, expected.best_accuracy)


def test_goes_on_within_an_epoch_to_the_bit_and_in_another_world_by_images(
    two_ranks: dict[str, Path], run: Run
) -> None:
    alone, saved = two_ranks["alone"], two_ranks["saved"]
    # Taking checkpoints changes nothing of the run, and none of them outlives its epoch.
    assert curve(saved) == curve(alone)
    taken = {int(path.name) for path in (saved / "taken").iterdir()}
    assert taken == {1, 2, 4, 6, 8, 10, 12, 14}
    assert not (alone / "taken").exists()
    for run_dir in alone, saved:
        left = {path.name for path in (run_dir / "checkpoints").glob("*.pt")}
        assert left == {"epoch-1.pt", "epoch-2.pt", "last.pt", "best.pt"}
    for step in PLACES:
        check_same_world(alone, two_ranks[f"from-{step}"], step)

    # After four steps on two ranks one goes on, after 32 images of the second epoch two again.
    one = run(1, one={"resume_dir": str(saved / "taken" / "4")})["one"]
    two = run(2, two={"resume_dir": str(one / "taken" / "18")})["two"]
    parts = [
        [line for line in curve(saved) if line["images"] <= 64],
        [line for line in curve(one) if line["images"] <= 144],
        curve(two),
    ]
    assert [(part[0]["step"], part[0]["steps"]) for part in parts] == [(0, 14), (8, 28), (9, 14)]
    assert [part[0]["images"] for part in parts] == [0, 64, 144]
    assert (parts[2][-1]["step"], parts[2][-1]["steps"]) == (14, 14)
    images = [line["images"] for part in parts for line in part]
    assert images == sorted(images)
    assert images[-1] == 144 + 5 * 2 * BATCH

    # One rank has half the batch, and half the rate; but for that it is one curve.
    rates = {line["images"]: line["lr"] for line in curve(alone) if line["event"] == "step"}
    assert rates[64] > 2 * parts[1][1]["lr"] > rates[96]
    assert 2 * parts[1][-1]["lr"] > parts[2][1]["lr"]
    assert parts[2][-1]["lr"] == curve(alone)[-1]["lr"]

    # Every image of an epoch is seen once at the most, and as few are left out as ever.
    first = dealt(saved, 2, 1)[:64] + dealt(one, 1, 1)
    second = dealt(one, 1, 2)[:32] + dealt(two, 2, 2)
    assert [len(first), len(second)] == [64 + 6 * BATCH, 32 + 5 * 2 * BATCH]
    assert [len(set(first)), len(set(second))] == [len(first), len(second)]

    world = json.loads((one / "world.json").read_text())
    assert world["resumed"] == {
        **{"from_world_size": 2, "from_batch_per_rank": BATCH},
        **{"epoch": 0, "step": 4, "images": 64},
    }
    assert "resumed" not in json.loads((alone / "world.json").read_text())
