"""Where a run goes on, and what it refuses to go on from."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from trainer.checkpoint import Checkpoint
from trainer.config import TrainConfig
from trainer.data.sampler import ShardedSampler
from trainer.engines import IndependentEngine
from trainer.errors import CheckpointError, ConfigError
from trainer.progress import Progress
from trainer.resuming import StartingPoint, load_resumed

DIMENSIONS = {"train_images": 480, "classes": 10, "image_size": 32}

SUMS = ("loss", "loss_images", "right")

Save = Callable[..., Checkpoint]


@pytest.fixture
def save(config: dict[str, Any], tmp_path: Path) -> Save:
    """Save a checkpoint of two ranks, 16 images each, after 20 steps of 15 an epoch."""

    def save(**changes: Any) -> Checkpoint:
        fields: dict[str, Any] = {
            **{"model": {}, "optimizer": {}, "scaler": {}, "ema": None},
            "rng": [{"cpu": torch.get_rng_state()}] * 2,
            "sampler": {"seed": 1, "epoch": 1},
            **{"step": 20, "epoch": 1, "accuracy": 0.5, "best_accuracy": 0.5},
            "config": TrainConfig.from_json({**config, "epochs": 3}).to_json(),
            **{"images": 640, "epoch_images": 160, "data": DIMENSIONS},
            "ranks": [{"loss": 8.0, "loss_images": 80, "right": 20}] * 2,
            "validations": [(2.0, 0.5)],
            **changes,
        }
        checkpoint = Checkpoint(**fields)
        checkpoint.save(tmp_path / checkpoint.name)
        return checkpoint

    return save


def loaded(
    config: dict[str, Any], folder: Path, world_size: int = 2, **changes: Any
) -> Checkpoint | None:
    dimensions = {**DIMENSIONS, **changes.pop("dimensions", {})}
    asked = {**config, "epochs": 3, "world_size": world_size, "resume_dir": str(folder), **changes}
    settings = TrainConfig.from_json(asked)
    sampler = ShardedSampler(480, settings.batch_per_rank, 0, world_size, 1)
    data: Any = SimpleNamespace(dimensions=dimensions, train=SimpleNamespace(sampler=sampler))
    return load_resumed(settings, IndependentEngine(), data)


def test_says_where_it_goes_on(
    save: Save, config: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save()
    loaded(config, tmp_path)
    assert capsys.readouterr().out == "resuming after epoch 1, step 20, 160 images into epoch 2\n"
    loaded(config, tmp_path, world_size=1)
    loaded(config, tmp_path, world_size=4, batch_per_rank=4)
    assert capsys.readouterr().out.splitlines() == [
        "resuming after epoch 1, step 20, 160 images into epoch 2, with 1 rank in place of 2: "
        "in steps of this world, 40 of 90",
        "resuming after epoch 1, step 20, 160 images into epoch 2, with 4 ranks in place of 2 "
        "and 4 images per rank and step in place of 16: in steps of this world, 40 of 90",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "vit"}, "model 'vit': the checkpoint was trained with 'cnn_a'"),
        ({"seed": 2}, "seed 2: the checkpoint was trained with 1"),
        (
            {"dimensions": {"train_images": 1000}},
            "train_images 1000: the checkpoint was trained with 480",
        ),
        (
            {"dimensions": {"validation_images": 50}},
            "50 training images are held out for validation, and the run that took the checkpoint "
            "held out 0: go on with the same validation_fraction, which is 0",
        ),
        ({"dimensions": {"classes": 100}}, "classes 100: the checkpoint was trained with 10"),
        ({"dimensions": {"image_size": 64}}, "image_size 64: the checkpoint was trained with 32"),
        ({"epochs": 1}, "epochs 1: the checkpoint has 1 already"),
    ],
)
def test_contradiction_is_refused(
    changes: dict[str, Any], message: str, save: Save, config: dict[str, Any], tmp_path: Path
) -> None:
    save()
    with pytest.raises(ConfigError, match=message):
        loaded(config, tmp_path, **changes)


def test_where_there_is_nothing_to_go_on_from_that_is_said(
    config: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint to resume from in"):
        loaded(config, tmp_path)


def test_a_run_that_was_cut_off_after_its_last_epoch_ends(
    save: Save, config: dict[str, Any], tmp_path: Path
) -> None:
    taken = {"epoch_images": 0, "ranks": [], "step": 15, "accuracy": 0.25}
    save(**taken, loss=1.5)
    resumed = loaded(config, tmp_path, epochs=1)
    start = StartingPoint.of(resumed, ShardedSampler(480, 16, 0, 2, 1))
    assert (start.progress.epoch, start.loss, start.accuracy) == (1, 1.5, 0.25)
    # An older one does not say what the end of a run says.
    save(**taken)
    with pytest.raises(ConfigError, match="the checkpoint has 1 already"):
        loaded(config, tmp_path, epochs=1)


def test_checkpoint_of_an_older_trainer_counts_steps_of_its_own_world(
    save: Save, config: dict[str, Any], tmp_path: Path
) -> None:
    older = save(images=None, epoch_images=0, ranks=[], data={}, step=15)
    assert older.name == "epoch-1.pt"
    content = torch.load(tmp_path / older.name, weights_only=True)
    for name in ("images", "epoch_images", "ranks", "data", "validations"):
        del content[name]
    resumed = Checkpoint(**content)
    # It does not say what data it was trained with.
    assert loaded(config, tmp_path, dimensions={"classes": 100}) is not None
    start = StartingPoint.of(resumed, ShardedSampler(480, 16, 0, 1, 1))
    assert start.progress == Progress(step=30, epoch=1, images=480)
    assert start.resumed == {
        **{"from_world_size": 2, "from_batch_per_rank": 16},
        **{"epoch": 1, "step": 15, "images": 480},
    }


@pytest.mark.parametrize(
    ("world_size", "step", "losses"),
    [
        (2, 20, [(8.0, 80, 20)] * 2),
        (1, 40, [(16.0, 160, 40)]),
        (3, 14, [(16.0, 160, 40), (0, 0, 0), (0, 0, 0)]),
    ],
)
def test_starting_point(
    world_size: int, step: int, losses: list[tuple[float, int, int]], save: Save
) -> None:
    """Three ranks do 10 steps an epoch; 320 images are left of this one, that is 6 steps."""
    starts = [
        StartingPoint.of(save(), ShardedSampler(480, 16, rank, world_size, 1))
        for rank in range(world_size)
    ]
    expected = Progress(step, 1, 640, 160, ((2.0, 0.5),))
    assert [start.progress for start in starts] == [expected] * world_size
    assert [tuple(start.meter.sums()[name] for name in SUMS) for start in starts] == losses
