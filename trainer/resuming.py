"""Resuming from the checkpoint of an earlier run, in a world of the same or another size."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer.checkpoint import Checkpoint, load_newest
from trainer.config import TrainConfig
from trainer.data.loading import Data
from trainer.data.sampler import ShardedSampler
from trainer.engines import Engine
from trainer.errors import ConfigError
from trainer.meter import Meter
from trainer.progress import Progress

# What a run must have in common with the one it goes on from.
FIXED = ("model", "dataset", "optimizer", "seed")


@dataclass(frozen=True)
class StartingPoint:
    """Where training begins.

    Attributes:
        best_accuracy: the highest before, 0 to 1; -1 where there was none.
        meter: the losses that this rank measured in the epoch under way.
        resumed: what `world.json` says of the checkpoint; None where the run begins anew.
        loss: mean over the training images of the last epoch; NaN where there was none.
        accuracy: on the validation split after it, 0 to 1; -1 where there was none.
    """

    progress: Progress = field(default_factory=Progress)
    best_accuracy: float = -1.0
    meter: Meter = field(default_factory=Meter)
    resumed: dict[str, int] | None = None
    loss: float = math.nan
    accuracy: float = -1.0

    @classmethod
    def of(cls, checkpoint: Checkpoint | None, sampler: ShardedSampler) -> "StartingPoint":
        """The point at which a checkpoint was taken; the beginning for None."""
        if checkpoint is None:
            return cls()
        progress = Progress(
            steps_done(checkpoint, sampler),
            checkpoint.epoch,
            images_of(checkpoint),
            checkpoint.epoch_images,
            tuple(checkpoint.validations),
        )
        before = checkpoint.config
        resumed = {
            "from_world_size": before["world_size"],
            "from_batch_per_rank": before["batch_per_rank"],
            "epoch": checkpoint.epoch,
            "step": checkpoint.step,
            "images": progress.images,
        }
        meter = _losses(checkpoint.ranks, sampler.rank, sampler.world_size)
        loss = math.nan if checkpoint.loss is None else checkpoint.loss
        return cls(progress, checkpoint.best_accuracy, meter, resumed, loss, checkpoint.accuracy)


def steps_done(checkpoint: Checkpoint, sampler: ShardedSampler) -> int:
    """The step at which a world goes on.

    Another world than the one that took the checkpoint counts in steps of its own: it does the
    rest of the epoch under way and the epochs after it; all other steps of the run are done.
    """
    left = sampler.batches_after(checkpoint.epoch_images)
    return (checkpoint.epoch + 1) * sampler.batches - left


def images_of(checkpoint: Checkpoint) -> int:
    """Training images that all ranks of a run had seen.

    A checkpoint that does not say it is of an older trainer: all its steps count as steps of the
    world that took it.
    """
    if checkpoint.images is not None:
        return checkpoint.images
    before = checkpoint.config
    images: int = checkpoint.step * before["batch_per_rank"] * before["world_size"]
    return images


def load_resumed(config: TrainConfig, engine: Engine, data: Data) -> Checkpoint | None:
    """Read the checkpoint to go on from on rank 0, and hand it to every rank.

    Raises:
        CheckpointError: there is no good one.
        ConfigError: it belongs to another kind of run, or has more epochs than are asked for.
    """
    if config.resume_dir is None:
        return None
    checkpoint: Checkpoint | None = None
    if engine.rank == 0:
        checkpoint = load_newest(Path(config.resume_dir), report=print)
    checkpoint = engine.broadcast(checkpoint)
    assert checkpoint is not None
    for name in FIXED:
        _require_same(name, checkpoint.config[name], getattr(config, name))
    _require_same("freeze", checkpoint.config.get("freeze", "none"), config.freeze)
    held_out = checkpoint.data.get("validation_images", 0)
    now = data.dimensions.get("validation_images", 0)
    if held_out != now:
        # Before there was a validation split, all images were trained on.
        raise ConfigError(
            f"{now} training images are held out for validation, and the run "
            f"that took the checkpoint held out {held_out}: go on with the same validation_fraction"
            + ("" if held_out else ", which is 0")
        )
    for name, number in data.dimensions.items():
        # Older checkpoints do not say it.
        _require_same(name, checkpoint.data.get(name, number), number)
    # One with just as many is of a run that was cut off after its last epoch: it has to end alone.
    is_complete = checkpoint.epoch == config.epochs and checkpoint.loss is not None
    if checkpoint.epoch >= config.epochs and not is_complete:
        raise ConfigError(
            f"epochs {config.epochs}: the checkpoint has {checkpoint.epoch} already; ask for more"
        )
    print(_described(checkpoint, config, data.train.sampler), flush=True)
    return checkpoint


def _require_same(name: str, before: Any, now: Any) -> None:
    if before != now:
        raise ConfigError(f"{name} {now!r}: the checkpoint was trained with {before!r}")


def _described(checkpoint: Checkpoint, config: TrainConfig, sampler: ShardedSampler) -> str:
    """Where the run goes on, and what of the world is not as it was, for the log."""
    text = f"resuming after epoch {checkpoint.epoch}, step {checkpoint.step}"
    if checkpoint.epoch_images:
        text += f", {checkpoint.epoch_images} images into epoch {checkpoint.epoch + 1}"
    before = checkpoint.config
    changes = []
    if before["world_size"] != sampler.world_size:
        ranks = "rank" if sampler.world_size == 1 else "ranks"
        changes.append(f"{sampler.world_size} {ranks} in place of {before['world_size']}")
    if before["batch_per_rank"] != sampler.batch_per_rank:
        batch = f"{sampler.batch_per_rank} images per rank and step"
        changes.append(f"{batch} in place of {before['batch_per_rank']}")
    if not changes:
        return text
    step, steps = steps_done(checkpoint, sampler), config.epochs * sampler.batches
    return f"{text}, with {' and '.join(changes)}: in steps of this world, {step} of {steps}"


def _losses(ranks: list[dict[str, Any]], rank: int, world_size: int) -> Meter:
    """What this rank had measured of an epoch; in another world rank 0 has the sums of all."""
    if len(ranks) == world_size:
        ranks = [ranks[rank]]
    elif rank > 0:
        return Meter()
    # Those of older checkpoints do not say how many images were right.
    names = ("loss", "loss_images", "right")
    return Meter(*(sum(entry.get(name, 0) for entry in ranks) for name in names))
