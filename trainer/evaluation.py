"""Loss and accuracy over a whole split, spread over the ranks."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainer.engine import Engine
from trainer.step import autocast


@dataclass(frozen=True)
class Evaluation:
    """What a model does on a split.

    Attributes:
        loss: mean cross-entropy in nats.
        accuracy: share of images classified right, 0 to 1.
        images: how many were looked at, over all ranks.
    """

    loss: float
    accuracy: float
    images: int


def evaluate(
    model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], engine: Engine, precision: str
) -> Evaluation:
    """Evaluate a model; every rank must call it, each with its own share of the images.

    Ranks exchange sums, not means: their shares may differ in size, and each image counts once.
    """
    sums = torch.zeros(3, dtype=torch.float64)
    was_training = model.training
    model.eval()
    with torch.inference_mode(), autocast(precision):
        for images, labels in batches:
            logits = model(images).float()
            sums[0] += functional.cross_entropy(logits, labels, reduction="sum")
            sums[1] += (logits.argmax(dim=1) == labels).sum()
            sums[2] += len(labels)
    model.train(was_training)
    loss, correct, count = engine.sum(sums).tolist()
    return Evaluation(loss=loss / count, accuracy=correct / count, images=int(count))
