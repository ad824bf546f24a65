"""Loss, speed and where the time went over a stretch of training."""

from dataclasses import dataclass
from time import perf_counter
from typing import Any, Self

import torch
from torch import Tensor

from trainer.engines import Engine
from trainer.metrics import SecondsPerStep


@dataclass(frozen=True)
class StepTime:
    """Where the time of a step went, in seconds.

    Attributes:
        data: waiting for the batch.
        communication: waiting for gradients of other ranks; what travels while the backward pass
            still runs costs nothing and is not in here.
        total: the whole step, with both of these.
    """

    data: float
    communication: float
    total: float


class StepClock:
    """Takes the times of one step after the other, from its making on."""

    def __init__(self) -> None:
        self._ended = self._requested = self._loaded = perf_counter()

    def batch_requested(self) -> None:
        """From now on the rank waits for a batch; what came before was for the logs."""
        self._requested = perf_counter()

    def batch_loaded(self) -> None:
        """The batch is there."""
        self._loaded = perf_counter()

    def step_ended(self, communication_seconds: float) -> StepTime:
        """Return the times of the step that has ended now; the next one begins."""
        ended = perf_counter()
        time = StepTime(self._loaded - self._requested, communication_seconds, ended - self._ended)
        self._ended = ended
        return time


class Meter:
    """Sums over the steps of one rank.

    Attributes:
        loss: sum of the images' losses in nats, a scalar tensor: reading it as a number would
            make every step wait for its end, which costs an accelerator its head start.
        loss_images: number of images that it is of.
        right: how many of these were classified right, likewise a tensor.
        images: number of images whose time counts.
        seconds: time spent on them, evaluation excluded.
        data_seconds, communication_seconds: the parts of it that `StepTime` names.

    Args:
        loss: sum of the losses to begin with, of images whose time does not count.
        loss_images: number of these images.
        right: how many of them were classified right.
    """

    def __init__(self, loss: float = 0.0, loss_images: int = 0, right: float = 0.0) -> None:
        self.loss = torch.tensor(loss, dtype=torch.float64)
        self.right = torch.tensor(right, dtype=torch.float64)
        self.loss_images = loss_images
        self.images = 0
        self.steps = 0
        self.seconds = 0.0
        self.data_seconds = 0.0
        self.communication_seconds = 0.0

    def add(self, mean_loss: Tensor, right: Tensor, images: int, time: StepTime) -> None:
        self.loss = self.loss.to(mean_loss.device) + mean_loss * images
        self.right = self.right.to(right.device) + right
        self.loss_images += images
        self.images += images
        self.steps += 1
        self.seconds += time.total
        self.data_seconds += time.data
        self.communication_seconds += time.communication

    def without_times(self) -> Self:
        return type(self)(**self.sums())

    def sums(self) -> dict[str, Any]:
        """The losses alone, as plain numbers that make another meter."""
        sums = {"loss": self.loss.item(), "right": self.right.item()}
        return {**sums, "loss_images": self.loss_images}

    def means(self, engine: Engine, number: float = 0.0) -> tuple[float, float, float]:
        """Mean loss and accuracy over the images of all ranks; every rank must call it.

        Beside them the sum of a number of every rank, for which nothing more is exchanged.
        """
        sums = torch.tensor([*self.sums().values(), number], dtype=torch.float64)
        loss, right, count, total = engine.sum(sums).tolist()
        return loss / count, right / count, total

    def images_per_second(self, world_size: int) -> float | None:
        """Speed of the whole world; None when nothing was counted.

        Ranks keep the same pace, so one rank's time is everyone's.
        """
        return self.images * world_size / self.seconds if self.seconds else None

    def seconds_per_step(self) -> SecondsPerStep:
        """Means over the steps of this rank; zeros where there was none."""
        waited = self.data_seconds + self.communication_seconds
        steps = max(self.steps, 1)
        return SecondsPerStep(
            data_seconds=self.data_seconds / steps,
            compute_seconds=(self.seconds - waited) / steps,
            communication_seconds=self.communication_seconds / steps,
        )
