"""The training loop."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from trainer.checkpointing import Checkpointer
from trainer.config import TrainConfig
from trainer.data.loading import Data
from trainer.divergence import divergence
from trainer.engines import Engine
from trainer.errors import DivergenceError, NonFiniteLossError
from trainer.evaluation import Evaluation, by_class, named, settle_batch_norm, test, told, validate
from trainer.learner import Learner
from trainer.meter import Meter, StepClock
from trainer.metrics import MetricsWriter, Position
from trainer.progress import Progress
from trainer.resuming import StartingPoint
from trainer.schedule import Schedule, plateau_factor


def _loss(evaluation: Evaluation | None) -> float:
    return 0.0 if evaluation is None else evaluation.loss


class TrainingLoop:
    """Epochs of steps, each epoch followed by a validation and a checkpoint; at the end, the test.

    Args:
        metrics: takes a line for the start, for steps, for every epoch and for the end.
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
        sampler = data.train.sampler
        self._steps = config.epochs * sampler.batches
        self._images_per_step = sampler.batch_per_rank * sampler.world_size
        warmup_steps = round(self._steps * config.warmup_fraction)
        self._rate = Schedule(config.peak_learning_rate, self._steps, warmup_steps, config.schedule)
        # What schedule `plateau` makes of the rate
        self._factor = 1.0
        self._progress = Progress()
        self._first_step = 1
        # All steps but the first, which pays for allocation and connections.
        self._steady = Meter()

    def run(self, start: StartingPoint) -> None:
        """Train from there to the end; every rank must call it.

        Raises:
            DivergenceError: the loss became infinite or NaN.
        """
        config, engine, metrics = self._config, self._engine, self._metrics
        self._progress, self._first_step = start.progress, start.progress.step + 1
        metrics.write("start", self._position(min(start.progress.epoch + 1, config.epochs)))
        meter = start.meter
        train_loss, train_accuracy, accuracy = start.loss, None, start.accuracy
        if self._is_over():
            # Cut off after its last epoch: what it left is all there is to save.
            self._checkpointer.save(self._progress, accuracy, train_loss)
        while not self._is_over():
            epoch = self._progress.epoch + 1
            if config.schedule == "plateau":
                self._factor = plateau_factor(loss for loss, _ in self._progress.validations)
            self._train_epoch(epoch, meter)
            train_loss, train_accuracy, _ = meter.means(engine)
            settle_batch_norm(self._learner, self._data, engine, config.precision, epoch)
            validation = None
            if epoch % config.evaluate_every == 0 or epoch == config.epochs:
                validation = validate(self._learner, self._data, engine, config.precision)
            # Before a checkpoint is taken: the steps since the last line have not been looked at.
            # Both are the same on every rank, so all of them end.
            for name, mean in (("training", train_loss), ("validation", _loss(validation))):
                if not math.isfinite(mean):
                    raise DivergenceError(f"the {name} loss is {mean} at the end of epoch {epoch}")
            metrics.write(
                "epoch",
                self._position(epoch),
                loss=train_loss,
                accuracy=train_accuracy,
                images_per_second=meter.images_per_second(engine.world_size),
                learning_rate=self._learning_rate(),
                seconds_per_step=meter.seconds_per_step(),
                results=named("validation", validation),
            )
            print(
                f"epoch {epoch} of {config.epochs}: training loss {train_loss:.4f}"
                + told("validation", validation),
                flush=True,
            )
            self._progress = replace(self._progress, epoch=epoch, epoch_images=0)
            accuracy = -1.0
            if validation is not None:
                accuracy = validation.accuracy
                validations = (*self._progress.validations, (validation.loss, accuracy))
                self._progress = replace(self._progress, validations=validations)
            self._checkpointer.save(self._progress, accuracy, train_loss)
            meter = Meter()
        if self._progress.epoch < config.epochs:
            since = self._progress.validations_since_best
            print(f"early stop: no higher accuracy in {since} validations in a row", flush=True)
        # A run whose last checkpoint is not on the disk has not ended well.
        self._checkpointer.finish()
        metrics.write(
            "end",
            self._position(self._progress.epoch),
            loss=train_loss,
            accuracy=train_accuracy,
            images_per_second=self._steady.images_per_second(engine.world_size),
            learning_rate=self._learning_rate(),
            results=self._look_at_the_test_set(),
        )

    def _is_over(self) -> bool:
        """Whether all epochs are done, or the validations have got no better for too long."""
        done, patience = self._progress, self._config.early_stop
        return done.epoch == self._config.epochs or (
            patience is not None and done.validations_since_best >= patience
        )

    def _learning_rate(self) -> float:
        return self._rate(self._progress.step) * self._factor

    def _look_at_the_test_set(self) -> Mapping[str, Any]:
        """Evaluate the last parameters and the best on the test set: nothing is chosen any more."""
        config, engine = self._config, self._engine
        last = test(self._learner, self._data, engine, config.precision)
        classes = self._data.description.classes
        results: dict[str, Any] = {**named("test", last), **by_class(last, classes)}
        last_epoch = self._progress.epoch
        print(f"the last, after epoch {last_epoch}{told('test', last)}", flush=True)
        epoch = self._checkpointer.load_best(last_epoch)
        if epoch is not None:
            is_last = epoch == last_epoch
            best = last if is_last else test(self._learner, self._data, engine, config.precision)
            results |= {"best_epoch": epoch, **named("best_test", best)}
            print(f"the best, after epoch {epoch}{told('test', best)}", flush=True)
        return results

    def _train_epoch(self, epoch: int, whole_epoch: Meter) -> None:
        """Take the steps that are left of an epoch, and count them in its sums."""
        self._learner.train_step.model.train()
        window = Meter()
        clock = StepClock()
        for images, labels in self._data.train.epoch(epoch, self._progress.epoch_images):
            clock.batch_loaded()
            self._count_step()
            loss = self._take_step(images, labels)
            time = clock.step_ended(self._learner.train_step.communication_seconds)
            step = self._progress.step
            is_first = step == self._first_step
            for meter in (window, whole_epoch, *([] if is_first else [self._steady])):
                meter.add(loss, self._learner.train_step.right, len(labels), time)
            # The steps at which an undisturbed run writes a line. The one after a resumption
            # comes on top of them, and must not change what the next one says of the loss.
            if step == 1 or step % self._config.log_every_steps == 0:
                if self._log_steps(window, epoch, images, self._checkpointer.is_due()):
                    self._checkpointer.save_within(self._progress, whole_epoch)
                window = Meter()
            elif is_first:
                self._log_steps(window, epoch, images)
                window = window.without_times()
            clock.batch_requested()

    def _count_step(self) -> None:
        done, images = self._progress, self._images_per_step
        self._progress = replace(
            done,
            step=done.step + 1,
            images=done.images + images,
            epoch_images=done.epoch_images + images,
        )

    def _take_step(self, images: Tensor, labels: Tensor) -> Tensor:
        """Take a step and return this rank's mean loss before it, a scalar."""
        try:
            return self._learner.step(images, labels, self._learning_rate())
        except NonFiniteLossError as error:
            raise self._divergence(error.loss, error.images) from error

    def _log_steps(
        self, window: Meter, epoch: int, images: Tensor, is_wanted: bool = False
    ) -> bool:
        """Write the metrics of the steps since the last line; images are the newest batch.

        Returns:
            Whether any rank wants a checkpoint. All learn it from the exchange that the loss needs.
        """
        loss, accuracy, wishes = window.means(self._engine, is_wanted)
        if not math.isfinite(loss):
            raise self._divergence(loss, images)
        self._metrics.write(
            "step",
            self._position(epoch),
            loss=loss,
            accuracy=accuracy,
            images_per_second=window.images_per_second(self._engine.world_size),
            learning_rate=self._learning_rate(),
            seconds_per_step=window.seconds_per_step(),
        )
        return wishes > 0

    def _divergence(self, loss: float, images: Tensor) -> DivergenceError:
        step, rank = self._progress.step, self._engine.rank
        return divergence(loss, images, step, self._learner, rank)

    def _position(self, epoch: int) -> Position:
        done = self._progress
        return Position(done.step, self._steps, epoch, self._config.epochs, done.images)
