"""Taking checkpoints of a run while it goes on."""

import copy
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from time import monotonic, thread_time
from typing import Any, Self

from torch import Tensor

from trainer.checkpoint import BEST, Checkpoint, CheckpointFolder
from trainer.checkpoint_interval import CheckpointInterval
from trainer.config import TrainConfig
from trainer.engines import Engine
from trainer.heartbeat import WAITS, beat, waiting
from trainer.learner import Learner, local_buffers, random_state
from trainer.meter import Meter
from trainer.progress import Progress

# Seconds that rank 0 waits for a write before it tells the others how far that is.
ROUND = 1.0


class Checkpointer:
    """Takes a checkpoint after every epoch and, by the clock, within one; knows the best.

    Rank 0 copies the state in memory, and a thread writes the copy while training goes on: one at
    a time, in the order in which they were taken. As a context it ends when the last is written.

    Args:
        data: what the parameters are made for, see `Checkpoint.data`.
        best_accuracy: the highest of the run so far, 0 to 1; -1 where there is none.
    """

    def __init__(
        self,
        config: TrainConfig,
        engine: Engine,
        learner: Learner,
        data: dict[str, Any],
        best_accuracy: float,
    ) -> None:
        self._config, self._engine, self._learner, self._data = config, engine, learner, data
        self._best_accuracy = best_accuracy
        self._folder = CheckpointFolder(
            Path(config.run_dir) / "checkpoints", config.keep_checkpoints
        )
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._write: Future[float] | None = None
        # Pieces that have been hashed or written, of all checkpoints
        self._pieces = 0
        self._interval = CheckpointInterval(config.seconds_between_failures)
        # How long the ranks waited while the last one was taken, in seconds
        self._waited = 0.0
        self._taken_at = monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Wait for the write under way, after an error too: what it saves is as good as ever."""
        if kind is None:
            self.finish()
        elif self._write is not None:
            # Alone: nobody knows what the other ranks do.
            self._wait_for_write(lambda known: known)
            if failure := self._write.exception():
                print(f"the last checkpoint was not written: {failure}", file=sys.stderr)
        self._writer.shutdown()

    def is_due(self) -> bool:
        """Whether it is time for one within an epoch; only rank 0 knows, for others it never is.

        While one is still being written it is not.

        Raises:
            OSError: the one before could not be written.
        """
        if self._engine.rank > 0:
            return False
        if self._write is not None:
            if not self._write.done():
                return False
            self._settle()
        seconds = self._config.checkpoint_seconds
        if seconds is None:
            seconds = self._interval.seconds
        return seconds > 0 and monotonic() - self._taken_at >= seconds

    def finish(self) -> None:
        """Wait until the checkpoints that were taken are written; every rank must call it.

        The ranks wait in rounds: while the write gets on they all say that they do, for on a slow
        disk it may take longer than a rank may be silent.

        Raises:
            OSError: one could not be.
        """
        self._wait_for_write(self._engine.broadcast)
        self._settle()

    def _wait_for_write(self, agree: Callable[[tuple[bool, int]], tuple[bool, int]]) -> None:
        """Wait in rounds, with a sign of life after each in which the write got on.

        Args:
            agree: takes what this rank knows, and returns what is to be believed: whether the write
                is over, and how many pieces are done.
        """
        with waiting():
            before = self._pieces
            while True:
                if self._write is not None:
                    wait([self._write], timeout=ROUND)
                is_over = self._write is None or self._write.done()
                is_over, pieces = agree((is_over, self._pieces))
                if is_over:
                    return
                if pieces != before:
                    beat(WAITS)
                before = pieces

    def _settle(self) -> None:
        """Take note of what a write that is over has cost, or of why it failed."""
        if self._write is not None:
            write, self._write = self._write, None
            is_first = self._interval.cost == 0
            self._interval.add(self._waited + write.result())
            if is_first and self._config.checkpoint_seconds is None:
                print(self._interval)

    def load_best(self, last_epoch: int) -> int | None:
        """Put the best checkpoint's parameters and buffers into the learner; every rank calls it.

        Whoever calls it is done with training: the optimizer's state stays that of the last.

        Returns:
            The epoch after which it was taken; None where it is not here, as in a run that went on
            from a better one.

        Raises:
            CheckpointError: it is damaged.
        """
        best = self._find_best() if self._engine.rank == 0 else None
        with waiting():
            epoch: int | None = self._engine.broadcast(best.epoch if best else None)
            if epoch is None or epoch == last_epoch:
                return epoch
            model, ema = self._engine.broadcast((best.model, best.ema) if best else None)
        self._learner.network.load_state_dict(model)
        if self._learner.averaged is not None and ema is not None:
            self._learner.averaged.load_state_dict(ema)
        return epoch

    def _find_best(self) -> Checkpoint | None:
        resumed = self._config.resume_dir
        for folder in (self._folder.path, *([Path(resumed)] if resumed else [])):
            if (folder / BEST).exists():
                best = Checkpoint.load(folder / BEST)
                if best.accuracy == self._best_accuracy:
                    return best
        return None

    def save(self, progress: Progress, accuracy: float, loss: float) -> None:
        """Take a checkpoint between two epochs; every rank must call it, rank 0 has it written.

        Args:
            accuracy: on the validation split, 0 to 1; -1 where it was not evaluated. Until it is,
                each checkpoint counts as the best.
            loss: mean over the training images of the epoch.

        Raises:
            OSError: the one before could not be written.
        """
        is_best = accuracy > self._best_accuracy or self._best_accuracy < 0
        self._best_accuracy = max(accuracy, self._best_accuracy)
        self._take(progress, {}, accuracy, is_best, loss)

    def save_within(self, progress: Progress, epoch: Meter) -> None:
        """Take a checkpoint within an epoch; every rank must call it, rank 0 has it written.

        Args:
            epoch: what this rank has measured since the epoch began.

        Raises:
            OSError: the one before could not be written.
        """
        local = {**epoch.sums(), **local_buffers(self._learner)}
        self._take(progress, local, accuracy=-1.0, is_best=False)

    def _take(
        self,
        progress: Progress,
        local: dict[str, Any],
        accuracy: float,
        is_best: bool,
        loss: float | None = None,
    ) -> None:
        """Collect what each rank alone knows, copy the state and have it written."""
        # Not counted: the wait for the write before is no cost of this one.
        self.finish()
        began = monotonic()
        ranks = self._engine.gather({**local, "rng": random_state()})
        if self._engine.rank > 0:
            return
        rng = [rank.pop("rng") for rank in ranks]
        learner = self._learner
        checkpoint = Checkpoint(
            model=in_memory(learner.network.state_dict()),
            optimizer=in_memory(learner.train_step.optimizer.state_dict()),
            scaler=learner.train_step.scaler.state_dict(),
            ema=in_memory(learner.averaged.state_dict()) if learner.averaged else None,
            rng=rng,
            sampler={"seed": self._config.seed, "epoch": progress.epoch},
            step=progress.step,
            epoch=progress.epoch,
            accuracy=accuracy,
            best_accuracy=self._best_accuracy,
            config=self._config.to_json(),
            images=progress.images,
            epoch_images=progress.epoch_images,
            ranks=ranks if local else [],
            data=self._data,
            loss=loss,
            validations=list(progress.validations),
        )
        self._taken_at = monotonic()
        self._waited = self._taken_at - began
        self._write = self._writer.submit(self._add, checkpoint, is_best)

    def _add(self, checkpoint: Checkpoint, is_best: bool) -> float:
        """Write a checkpoint; returns the processor time that it took, in seconds.

        It counts as a cost, as if the ranks had waited for it: where they need every core, they do.
        """
        began = thread_time()
        self._folder.add(checkpoint, is_best, self._moved)
        return thread_time() - began

    def _moved(self) -> None:
        self._pieces += 1


def in_memory(state: Any) -> Any:
    """Copy nested state into the memory of the processor; training does not change the copy."""
    if isinstance(state, Tensor):
        return state.detach().to("cpu", copy=True)
    if isinstance(state, dict):
        # Of the same type, with what torch keeps in an attribute of a `state_dict`: the versions.
        twin = copy.copy(state)
        twin.update({key: in_memory(value) for key, value in state.items()})
        return twin
    if isinstance(state, list | tuple):
        return type(state)(map(in_memory, state))
    return state
