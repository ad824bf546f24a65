"""Which image goes to which rank, in which order."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.errors import ConfigError

# More than a run has epochs or ranks, so that seeds made of several numbers do not meet.
SEED_PRIME = 1_000_003


def balanced_subset(labels: Tensor, count: int, seed: int) -> Tensor:
    """Choose a fixed subset with the same number of images of each class, give or take one.

    Args:
        labels: the class of every image.
        count: how many to choose.
        seed: another seed chooses other images.

    Returns:
        Their indices in ascending order.

    Raises:
        ConfigError: a class has too few images.
    """
    classes = labels.unique()
    per_class, rest = divmod(count, len(classes))
    generator = torch.Generator().manual_seed(seed)
    chosen = []
    for position, label in enumerate(classes):
        members = (labels == label).nonzero().flatten()
        size = per_class + (position < rest)
        if size > len(members):
            raise ConfigError(
                f"train_images {count} is more than the data set has: {len(labels)} images, "
                f"{len(members)} of class {int(label)}"
            )
        chosen.append(members[torch.randperm(len(members), generator=generator)[:size]])
    return torch.cat(chosen).sort().values


@dataclass(frozen=True)
class ShardedSampler:
    """Batches of indices for one rank: disjoint from those of the others, and as many.

    An epoch shuffles all images, the same on every rank, and deals them out in turn. What does
    not fill a batch on every rank is left out of this epoch; the next one shuffles anew. Equal
    counts matter: a rank with a batch more would wait forever for gradients of the others.

    Attributes:
        images: number of images of the whole world.
        batch_per_rank: images a rank takes in a step.
        rank: this rank.
        world_size: number of ranks.
        seed: of the order.

    Raises:
        ConfigError: there are not enough images for one step.
    """

    images: int
    batch_per_rank: int
    rank: int
    world_size: int
    seed: int

    def __post_init__(self) -> None:
        if self.batches == 0:
            raise ConfigError(
                f"batch_per_rank {self.batch_per_rank} on {self.world_size} ranks needs "
                f"{self.batch_per_rank * self.world_size} images for a step, "
                f"there are {self.images}"
            )

    @property
    def batches(self) -> int:
        """Steps in an epoch."""
        return self.images // (self.batch_per_rank * self.world_size)

    def epoch(self, epoch: int) -> Iterator[Tensor]:
        """Yield the batches of an epoch, counted from 1, as vectors of indices."""
        generator = torch.Generator().manual_seed(_epoch_seed(self.seed, epoch))
        order = torch.randperm(self.images, generator=generator)
        mine = order[: self.batches * self.batch_per_rank * self.world_size]
        yield from mine[self.rank :: self.world_size].split(self.batch_per_rank)


def augmentation_seed(sampler: ShardedSampler, epoch: int) -> int:
    """Another one for every epoch and rank; nothing of it need be kept to go on with a run."""
    seed = _epoch_seed(sampler.seed, epoch) * SEED_PRIME + sampler.rank + 1
    return seed % 2**63


def _epoch_seed(seed: int, epoch: int) -> int:
    """Another one for every epoch; epochs of neighbouring seeds have none in common."""
    return seed * SEED_PRIME + epoch
