"""The workload of every arm of the throughput benchmark: a model and images."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from trainer.data import store
from trainer.data.augment import Normalise
from trainer.data.memory import ImageSet, TrainingBatches
from trainer.data.sampler import ShardedSampler
from trainer.models import REFERENCE_CLASSES, REFERENCE_SIZE, build_model

SEED = 1
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Workload:
    """What every arm trains.

    Attributes:
        batch_per_rank: images a rank sees in one step.
        precision: of the forward and backward pass.
    """

    model: str
    batch_per_rank: int
    precision: str
    dataset: Path
    device: torch.device = CPU


def read_batches(workload: Workload, rank: int, world_size: int) -> TrainingBatches:
    """A rank's batches of the real training images, on its device, augmented as in training."""
    description = store.read_description(workload.dataset)
    data = ImageSet.load(workload.dataset, "train").to(workload.device)
    normalise = Normalise(description.channel_means, description.channel_deviations)
    sampler = ShardedSampler(len(data), workload.batch_per_rank, rank, world_size, SEED)
    return TrainingBatches(data, sampler, normalise)


def fresh_model(workload: Workload) -> nn.Module:
    """Make the model, in the memory format that convolutions are trained in, ready to train."""
    torch.manual_seed(SEED)
    model = build_model(workload.model, REFERENCE_CLASSES, REFERENCE_SIZE)
    return model.to(workload.device, memory_format=torch.channels_last).train()
