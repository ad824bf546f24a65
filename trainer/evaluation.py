"""Loss and accuracy over a whole split, spread over the ranks."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import update_bn

from trainer.data.loading import Data
from trainer.engines import Engine
from trainer.heartbeat import beat
from trainer.learner import Learner
from trainer.step import autocast

# Images, over all ranks, that batch normalisation is measured on before an evaluation: the mean and
# variance of a channel are known well after one or two thousand.
STATISTICS_IMAGES = 2048
TOP = 5


# More classes than these have no confusion matrix, of a million numbers for ImageNet.
MOST_CONFUSED = 100


@dataclass(frozen=True)
class Evaluation:
    """Results of a model on a split.

    Attributes:
        loss: mean cross-entropy in nats.
        accuracy: fraction of images classified right, 0 to 1.
        images: how many were looked at, over all ranks.
        top5: fraction of images whose class is among the five most likely; None of five classes or
            fewer, where it says nothing.
        confusion: how many images of each class (row) got which answer (column), int64, classes x
            classes; None where it was not asked for.
    """

    loss: float
    accuracy: float
    images: int
    top5: float | None = None
    confusion: Tensor | None = None


def evaluate(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    engine: Engine,
    precision: str,
    classes: int = 0,
) -> Evaluation:
    """Evaluate a model; every rank must call it, with its own shard of the images.

    Ranks exchange sums, not means: their shards may differ in size, and every image counts once.

    Args:
        model: it comes back in the mode in which it was.
        classes: their number, for a confusion matrix; 0 for none.
    """
    sums = torch.zeros(4 + classes * classes, dtype=torch.float64)
    device = next(model.parameters()).device.type
    was_training = model.training
    model.eval()
    width = 0
    with torch.inference_mode(), autocast(precision, device):
        for images, labels in batches:
            logits = model(images).float()
            width = logits.shape[1]
            loss = functional.cross_entropy(logits, labels, reduction="sum")
            answers = logits.argmax(dim=1)
            best = logits.topk(min(TOP, width), dim=1).indices
            near = (best == labels[:, None]).sum()
            right = (answers == labels).sum()
            some = [loss.item(), right.item(), near.item(), len(labels)]
            sums[:4] += torch.tensor(some, dtype=torch.float64)
            if classes:
                pairs = torch.bincount(labels * classes + answers, minlength=classes * classes)
                sums[4:] += pairs.cpu()
            beat()
    model.train(was_training)
    total = engine.sum(sums)
    loss_sum, right_sum, near_sum, count = total[:4].tolist()
    return Evaluation(
        loss=loss_sum / count,
        accuracy=right_sum / count,
        images=int(count),
        top5=near_sum / count if width > TOP else None,
        confusion=total[4:].long().view(classes, classes) if classes else None,
    )


def validate(learner: Learner, data: Data, engine: Engine, precision: str) -> Evaluation | None:
    """Evaluate a learner on the validation split; every rank must call it.

    Returns:
        The result; None where no images are held out.
    """
    return _checked(learner, data.validation, data.validation_images, engine, precision)


def test(learner: Learner, data: Data, engine: Engine, precision: str) -> Evaluation | None:
    """Evaluate a learner on the test set; every rank must call it.

    Nothing may be chosen by the result.
    """
    images = data.description.test_images
    classes = len(data.description.classes)
    return _checked(
        learner,
        data.test,
        images,
        engine,
        precision,
        classes if classes <= MOST_CONFUSED else 0,
    )


def named(split: str, evaluation: Evaluation | None) -> dict[str, float | None]:
    """The results by the keys of `metrics.jsonl`, which begin with the split."""
    return {
        f"{split}_loss": evaluation.loss if evaluation else None,
        f"{split}_accuracy": evaluation.accuracy if evaluation else None,
        f"{split}_top5": evaluation.top5 if evaluation else None,
    }


def by_class(evaluation: Evaluation | None, names: Sequence[str]) -> dict[str, Any]:
    """The confusion matrix of the test set with the names of its classes, for `metrics.jsonl`."""
    if evaluation is None or evaluation.confusion is None:
        return {}
    return {"classes": list(names), "test_confusion": evaluation.confusion.tolist()}


def told(split: str, evaluation: Evaluation | None) -> str:
    """The results for the log, behind what goes before."""
    if evaluation is None:
        return ""
    return f", {split} loss {evaluation.loss:.4f}, {split} accuracy {evaluation.accuracy:.4f}"


def _checked(
    learner: Learner,
    batches: Iterable[tuple[Tensor, Tensor]],
    images: int,
    engine: Engine,
    precision: str,
    classes: int = 0,
) -> Evaluation | None:
    if images == 0:
        return None
    evaluation = evaluate(learner.evaluated, batches, engine, precision, classes)
    if evaluation.images != images:
        raise AssertionError(f"evaluated {evaluation.images} of {images} images")
    return evaluation


def settle_batch_norm(
    learner: Learner, data: Data, engine: Engine, precision: str, epoch: int
) -> None:
    """Measure what batch normalisation uses in an evaluation anew; every rank must call it.

    The running means lag behind the parameters: with the momentum of 0.01 or less that several of
    torchvision's networks have, half of them is what they began with after 80 steps, and the
    network answers the same class for every image. So they become the means over the first
    `STATISTICS_IMAGES` images of the epoch, with the parameters of now (Wu and Johnson, 2021), and
    then over all ranks, so that all judge with the same model, the one that a checkpoint holds.

    Args:
        learner: its network, and the averaged one where there is one.
        data: its training images are looked at, as they are in training.
        epoch: the epoch that has ended, from 1.
    """
    sampler = data.train.sampler
    steps = math.ceil(STATISTICS_IMAGES / (sampler.batch_per_rank * sampler.world_size))

    def batches() -> Iterator[Tensor]:
        for images, _ in islice(data.train.epoch(epoch), steps):
            beat()
            yield images

    for model in dict.fromkeys((learner.network, learner.evaluated)):
        device = next(model.parameters()).device.type
        with autocast(precision, device):
            # It looks at no image where there is nothing to measure.
            update_bn(batches(), model)
        average_buffers(model, engine)


def average_buffers(model: nn.Module, engine: Engine) -> None:
    """Give every rank the mean of all ranks' buffers; every rank must call it."""
    buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
    if not buffers or engine.world_size == 1:
        return
    values = torch.cat([buffer.flatten() for buffer in buffers])
    means = engine.sum(values) / engine.world_size
    parts = means.split([buffer.numel() for buffer in buffers])
    for buffer, mean in zip(buffers, parts, strict=True):
        buffer.copy_(mean.view_as(buffer))
