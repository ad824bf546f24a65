"""Taking checkpoints of a run while it goes on."""

from pathlib import Path

from trainer.checkpoint import Checkpoint, CheckpointFolder
from trainer.config import TrainConfig
from trainer.engines import Engine
from trainer.learner import Learner, random_state


class Checkpointer:
    """Takes a checkpoint after every epoch, and knows which was the best.

    Args:
        config: the run's configuration.
        engine: collects the state of the random generators of all ranks.
        learner: what is saved.
        best_accuracy: the highest of the run so far, 0 to 1; -1 where there is none.
    """

    def __init__(
        self, config: TrainConfig, engine: Engine, learner: Learner, best_accuracy: float
    ) -> None:
        self._config, self._engine, self._learner = config, engine, learner
        self._best_accuracy = best_accuracy
        self._folder = CheckpointFolder(
            Path(config.run_dir) / "checkpoints", config.keep_checkpoints
        )

    def save(self, step: int, epoch: int, accuracy: float) -> None:
        """Take a checkpoint; every rank must call it, rank 0 writes it.

        Args:
            step: steps done.
            epoch: epochs done.
            accuracy: on the test set, 0 to 1.
        """
        rng = self._engine.gather(random_state())
        if self._engine.rank > 0:
            return
        is_best = accuracy > self._best_accuracy
        self._best_accuracy = max(accuracy, self._best_accuracy)
        learner = self._learner
        checkpoint = Checkpoint(
            model=learner.network.state_dict(),
            optimizer=learner.train_step.optimizer.state_dict(),
            scaler=learner.train_step.scaler.state_dict(),
            ema=learner.averaged.state_dict() if learner.averaged else None,
            rng=rng,
            sampler={"seed": self._config.seed, "epoch": epoch},
            step=step,
            epoch=epoch,
            accuracy=accuracy,
            best_accuracy=self._best_accuracy,
            config=self._config.to_json(),
        )
        self._folder.add(checkpoint, is_best)
