"""The training loop."""

import math

from torch import Tensor

from trainer.checkpointing import Checkpointer
from trainer.config import TrainConfig
from trainer.data.loading import Data
from trainer.divergence import divergence
from trainer.engines import Engine
from trainer.errors import NonFiniteLossError
from trainer.evaluation import evaluate_learner
from trainer.learner import Learner
from trainer.meter import Meter, StepClock
from trainer.metrics import MetricsWriter, Position
from trainer.resuming import StartingPoint
from trainer.schedule import WarmupCosine


class TrainingLoop:
    """Epochs of steps, each epoch followed by an evaluation and a checkpoint.

    Args:
        config: the run's configuration.
        engine: ties the ranks together.
        data: this rank's batches.
        learner: what is trained.
        metrics: takes a line for the start, for steps, for every epoch and for the end.
        checkpointer: takes the checkpoints.
    """

    def __init__(
        self,
        config: TrainConfig,
        engine: Engine,
        data: Data,
        learner: Learner,
        metrics: MetricsWriter,
        checkpointer: Checkpointer,
    ) -> None:
        self._config, self._engine, self._data = config, engine, data
        self._learner, self._metrics, self._checkpointer = learner, metrics, checkpointer
        self._steps = config.epochs * len(data.train)
        warmup_steps = round(self._steps * config.warmup_fraction)
        self._rate = WarmupCosine(config.peak_learning_rate, self._steps, warmup_steps)
        self._step = 0
        self._first_step = 1
        # All steps but the first, which pays for allocation and connections.
        self._steady = Meter()

    def run(self, start: StartingPoint) -> None:
        """Train from there to the end; every rank must call it.

        Raises:
            DivergenceError: the loss is no longer a number.
        """
        config, engine, metrics = self._config, self._engine, self._metrics
        self._step, self._first_step = start.step, start.step + 1
        metrics.write("start", self._position(start.epoch + 1))
        for epoch in range(start.epoch + 1, config.epochs + 1):
            meter = self._train_epoch(epoch)
            train_loss = meter.mean_loss(engine)
            test = evaluate_learner(self._learner, self._data, engine, config.precision)
            metrics.write(
                "epoch",
                self._position(epoch),
                loss=test.loss,
                accuracy=test.accuracy,
                images_per_second=meter.images_per_second(engine.world_size),
                learning_rate=self._rate(self._step),
                seconds_per_step=meter.seconds_per_step(),
            )
            print(
                f"epoch {epoch} of {config.epochs}: training loss {train_loss:.4f}, "
                f"test loss {test.loss:.4f}, test accuracy {test.accuracy:.4f}",
                flush=True,
            )
            self._checkpointer.save(self._step, epoch, test.accuracy)
        metrics.write(
            "end",
            self._position(config.epochs),
            loss=train_loss,
            accuracy=test.accuracy,
            images_per_second=self._steady.images_per_second(engine.world_size),
            learning_rate=self._rate(self._step),
        )

    def _train_epoch(self, epoch: int) -> Meter:
        """Take all steps of an epoch and return its sums."""
        self._learner.train_step.model.train()
        window, whole_epoch = Meter(), Meter()
        clock = StepClock()
        for images, labels in self._data.train.epoch(epoch):
            clock.batch_loaded()
            self._step += 1
            loss = self._take_step(images, labels)
            time = clock.step_ended(self._learner.train_step.communication_seconds)
            is_first = self._step == self._first_step
            for meter in (window, whole_epoch, *([] if is_first else [self._steady])):
                meter.add(loss, len(labels), time)
            if is_first or self._step % self._config.log_every_steps == 0:
                self._log_steps(window, epoch, images)
                window = Meter()
            clock.batch_requested()
        return whole_epoch

    def _take_step(self, images: Tensor, labels: Tensor) -> Tensor:
        """Take a step and return this rank's mean loss before it, a scalar."""
        try:
            return self._learner.step(images, labels, self._rate(self._step))
        except NonFiniteLossError as error:
            rank = self._engine.rank
            raise divergence(error.loss, error.images, self._step, self._learner, rank) from error

    def _log_steps(self, window: Meter, epoch: int, images: Tensor) -> None:
        """Write the metrics of the steps since the last line; images are the newest batch."""
        loss = window.mean_loss(self._engine)
        if not math.isfinite(loss):
            raise divergence(loss, images, self._step, self._learner, self._engine.rank)
        self._metrics.write(
            "step",
            self._position(epoch),
            loss=loss,
            images_per_second=window.images_per_second(self._engine.world_size),
            learning_rate=self._rate(self._step),
            seconds_per_step=window.seconds_per_step(),
        )

    def _position(self, epoch: int) -> Position:
        return Position(self._step, self._steps, epoch, self._config.epochs)
