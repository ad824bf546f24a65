"""Going on from the checkpoint of an earlier run."""

from dataclasses import dataclass
from pathlib import Path

from trainer.checkpoint import Checkpoint, load_newest
from trainer.config import TrainConfig
from trainer.engines import Engine
from trainer.errors import ConfigError

# What a run must have in common with the one it goes on from.
FIXED = ("model", "dataset", "optimizer", "seed")


@dataclass(frozen=True)
class StartingPoint:
    """Where training begins.

    Attributes:
        step: steps done before.
        epoch: epochs done before.
        best_accuracy: the highest before, 0 to 1; -1 where there was none.
    """

    step: int = 0
    epoch: int = 0
    best_accuracy: float = -1.0

    @classmethod
    def of(cls, checkpoint: Checkpoint | None) -> "StartingPoint":
        """The point at which a checkpoint was taken; the beginning for None."""
        if checkpoint is None:
            return cls()
        return cls(checkpoint.step, checkpoint.epoch, checkpoint.best_accuracy)


def load_resumed(config: TrainConfig, engine: Engine) -> Checkpoint | None:
    """Read the checkpoint to go on from on rank 0, and hand it to every rank.

    Raises:
        CheckpointError: there is no good one.
        ConfigError: it belongs to another kind of run, or has all the epochs already.
    """
    if config.resume_dir is None:
        return None
    checkpoint: Checkpoint | None = None
    if engine.rank == 0:
        checkpoint = load_newest(Path(config.resume_dir), report=print)
    checkpoint = engine.broadcast(checkpoint)
    assert checkpoint is not None
    for name in FIXED:
        before, now = checkpoint.config[name], getattr(config, name)
        if before != now:
            raise ConfigError(f"{name} {now!r}: the checkpoint was trained with {before!r}")
    if checkpoint.epoch >= config.epochs:
        raise ConfigError(
            f"epochs {config.epochs}: the checkpoint has {checkpoint.epoch} already; ask for more"
        )
    print(f"going on after epoch {checkpoint.epoch}, step {checkpoint.step}", flush=True)
    return checkpoint
