"""Loss and accuracy over a whole split, spread over the ranks."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

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


@dataclass(frozen=True)
class Evaluation:
    """What a model does on a split.

    Attributes:
        loss: mean cross-entropy in nats.
        accuracy: fraction of images classified right, 0 to 1.
        images: how many were looked at, over all ranks.
    """

    loss: float
    accuracy: float
    images: int


def evaluate(
    model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], engine: Engine, precision: str
) -> Evaluation:
    """Evaluate a model; every rank must call it, with its own shard of the images.

    Ranks exchange sums, not means: their shards may differ in size, and every image counts once.
    """
    sums = torch.zeros(3, dtype=torch.float64)
    device = next(model.parameters()).device.type
    was_training = model.training
    model.eval()
    with torch.inference_mode(), autocast(precision, device):
        for images, labels in batches:
            logits = model(images).float()
            loss = functional.cross_entropy(logits, labels, reduction="sum")
            correct = (logits.argmax(dim=1) == labels).sum()
            sums += torch.tensor([loss.item(), correct.item(), len(labels)], dtype=torch.float64)
            beat()
    model.train(was_training)
    loss_sum, right, count = engine.sum(sums).tolist()
    return Evaluation(loss=loss_sum / count, accuracy=right / count, images=int(count))


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
    return _checked(learner, data.test, data.description.test_images, engine, precision)


def named(split: str, evaluation: Evaluation | None) -> dict[str, float | None]:
    """The results by the keys of `metrics.jsonl`, which begin with the split."""
    return {
        f"{split}_loss": evaluation.loss if evaluation else None,
        f"{split}_accuracy": evaluation.accuracy if evaluation else None,
    }


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
) -> Evaluation | None:
    if images == 0:
        return None
    evaluation = evaluate(learner.evaluated, batches, engine, precision)
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
        engine: tells the ranks.
        precision: as in training.
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
