"""Which image goes to which rank, in which order."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.errors import ConfigError

# More than a run has epochs, so that the seeds of two runs do not meet.
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

    An epoch shuffles all images, the same for every rank and every number of ranks, and deals them
    out in turn. So the images that a world has seen are always the first ones of the order, and
    another world can be dealt the rest. What does not fill a batch on every rank is left out of
    this epoch; the next one shuffles anew. Equal counts matter: a rank with a batch more would
    wait forever for gradients of the others.

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
        return self.batches_after(0)

    def batches_after(self, seen: int) -> int:
        """Steps that are left of an epoch of which all ranks together have seen so many images."""
        return (self.images - seen) // (self.batch_per_rank * self.world_size)

    def epoch(self, epoch: int, seen: int = 0) -> Iterator[Tensor]:
        """Yield the batches of an epoch as vectors of indices.

        Args:
            epoch: the epoch, from 1.
            seen: images of it that all ranks together have seen; they are left out.
        """
        # Epochs of neighbouring seeds have no order in common.
        generator = torch.Generator().manual_seed(self.seed * SEED_PRIME + epoch)
        rest = torch.randperm(self.images, generator=generator)[seen:]
        dealt = rest[: self.batches_after(seen) * self.batch_per_rank * self.world_size]
        yield from dealt[self.rank :: self.world_size].reshape(-1, self.batch_per_rank)

    def generators(self, epoch: int, seen: int = 0) -> Iterator[torch.Generator]:
        """Yield for each of those batches the source of its random numbers.

        It follows from the place in the epoch alone: nothing need be kept or done again to go on
        with a run in the middle.
        """
        for number in range(self.batches_after(seen)):
            place = seen + number * self.batch_per_rank * self.world_size
            seed = random_seed(self.seed, epoch, place, self.rank)
            yield torch.Generator().manual_seed(seed)


def random_seed(*numbers: int) -> int:
    """Make a seed of several numbers; neighbouring numbers give unrelated seeds.

    Returns:
        A number of 32 bits: torch's generator for CPUs uses no more of its seed.
    """
    text = "/".join(map(str, numbers))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest())
