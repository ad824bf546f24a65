"""Loss and speed over a stretch of training."""

import torch
from torch import Tensor

from trainer.engine import Engine


class Meter:
    """Sums over the steps of one rank.

    Attributes:
        loss: sum of the images' losses in nats, a scalar tensor: reading it as a number would
            make every step wait for its end, which costs an accelerator its head start.
        images: number of images.
        seconds: time spent on them, evaluation excluded.
    """

    def __init__(self) -> None:
        self.loss = torch.zeros((), dtype=torch.float64)
        self.images = 0
        self.seconds = 0.0

    def add(self, mean_loss: Tensor, images: int, seconds: float) -> None:
        """Count a step."""
        self.loss = self.loss + mean_loss * images
        self.images += images
        self.seconds += seconds

    def mean_loss(self, engine: Engine) -> float:
        """Mean loss over the images of all ranks; every rank must call it."""
        images = torch.tensor(self.images, dtype=torch.float64)
        loss, count = engine.sum(torch.stack([self.loss, images])).tolist()
        return float(loss / count)

    def images_per_second(self, world_size: int) -> float | None:
        """Speed of the whole world; None when nothing was counted.

        Ranks keep the same pace, so one rank's time is everyone's.
        """
        return self.images * world_size / self.seconds if self.seconds else None
