"""Which image goes to which rank, in which order."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.errors import ConfigError

# More than a run has epochs, so that the seeds of two runs do not meet.
SEED_PRIME = 1_000_003
# Sets the seed of the validation split apart from those of epochs, which count from 1.
VALIDATION = -1


def balanced_subset(labels: Tensor, count: int, seed: int) -> Tensor:
    """Choose a fixed subset with the same number of images of each class, give or take one.

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


def training_and_validation(
    labels: Tensor, count: int | None, fraction: float, seed: int
) -> tuple[Tensor, Tensor]:
    """Part a training set in what is trained on and what checkpoints are chosen by.

    The validation split is drawn first, from all images: it is the same however many of the others
    are trained on. Each class gives the same fraction, and at least one image.

    Args:
        count: size of the class-balanced subset of the others to train on; None for all of them.
        fraction: of each class for validation, 0 to 1; 0 holds none out.

    Returns:
        The indices of both in ascending order.

    Raises:
        ConfigError: a class has too few images.
    """
    generator = torch.Generator().manual_seed(random_seed(seed, VALIDATION))
    is_held_out = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique() if fraction else ():
        members = (labels == label).nonzero().flatten()
        size = max(1, round(fraction * len(members)))
        if size >= len(members):
            raise ConfigError(
                f"validation_fraction {fraction}: class {int(label)} has {len(members)} images, "
                "and one at least is to be trained on; with 0 none are held out"
            )
        is_held_out[members[torch.randperm(len(members), generator=generator)[:size]]] = True
    rest = (~is_held_out).nonzero().flatten()
    held_out = is_held_out.nonzero().flatten()
    if count is None:
        return rest, held_out
    if len(rest) < count <= len(labels):
        raise ConfigError(
            f"train_images {count}: of {len(labels)} images {len(held_out)} are held out for "
            f"validation; ask for {len(rest)} at the most, or for validation_fraction 0"
        )
    return rest[balanced_subset(labels[rest], count, seed)], held_out


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
