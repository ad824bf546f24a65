"""Images held in memory, and the batches made from them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from trainer.data import store
from trainer.data.augment import Mixing, Normalise, Policy, crop_and_flip
from trainer.data.sampler import ShardedSampler, balanced_subset, training_and_validation

CROP_PADDING = 4
EVALUATION_BATCH = 500


@dataclass(frozen=True)
class ImageSet:
    """Decoded images and their classes.

    Attributes:
        images: uint8, images x channels x height x width; a byte per value, a quarter of what
            floats would take.
        labels: int64, one per image.
    """

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device) -> "ImageSet":
        """The same images in the memory of a device."""
        return ImageSet(self.images.to(device), self.labels.to(device))

    def shard(self, rank: int, world_size: int) -> "ImageSet":
        """Every `world_size`-th image from the `rank`-th on: all shards together are the set."""
        return ImageSet(self.images[rank::world_size], self.labels[rank::world_size])

    @classmethod
    def load(
        cls, directory: Path, split: str, count: int | None = None, seed: int = 0
    ) -> "ImageSet":
        """Read a split of a prepared data set.

        Args:
            split: "train" or "test".
            count: size of the class-balanced subset to keep; None for all.

        Raises:
            DataError: the data set is missing or damaged.
            ConfigError: it has fewer images than `count`.
        """
        arrays = store.read_split(directory, split)
        labels = torch.from_numpy(arrays.labels).long()
        if count is None:
            return cls(torch.from_numpy(np.array(arrays.images)), labels)
        return cls._chosen(arrays, balanced_subset(labels, count, seed))

    @classmethod
    def load_training(
        cls, directory: Path, count: int | None, fraction: float, seed: int
    ) -> "tuple[ImageSet, ImageSet]":
        """Read what is trained on, and the validation split; see `training_and_validation`.

        Raises:
            DataError: the data set is missing or damaged.
            ConfigError: it has fewer images than are asked for.
        """
        arrays = store.read_split(directory, "train")
        labels = torch.from_numpy(arrays.labels).long()
        train, validation = training_and_validation(labels, count, fraction, seed)
        return cls._chosen(arrays, train), cls._chosen(arrays, validation)

    @classmethod
    def _chosen(cls, arrays: store.Split, chosen: Tensor) -> "ImageSet":
        numbers = chosen.numpy()
        return cls(
            torch.from_numpy(arrays.images[numbers]),
            torch.from_numpy(arrays.labels[numbers]).long(),
        )


@dataclass(frozen=True)
class TrainingBatches:
    """One rank's augmented batches, the same for the same seed, place in the epoch and rank.

    Attributes:
        data: the training images of the whole world.
        crops: whether images are cut and flipped at random.
        policy: what they go through after that; None for nothing.
    """

    data: ImageSet
    sampler: ShardedSampler
    normalise: Normalise
    mixing: Mixing | None = None
    crops: bool = True
    policy: Policy | None = None

    def epoch(self, epoch: int, seen: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield images (float32, batch x channels x height x width) and labels, on the device."""
        batches = self.sampler.epoch(epoch, seen), self.sampler.generators(epoch, seen)
        for indices, generator in zip(*batches, strict=True):
            on_device = indices.to(self.data.images.device)
            images, labels = self.data.images[on_device], self.data.labels[on_device]
            if self.crops:
                images = crop_and_flip(images, CROP_PADDING, generator)
            if self.policy:
                images = self.policy(images, generator)
            batch = self.normalise(images), labels
            yield self.mixing(*batch, generator) if self.mixing else batch


@dataclass(frozen=True)
class EvaluationBatches:
    """A rank's shard of a split in order, every image once, not augmented.

    Attributes:
        data: the images of this rank; there may be fewer images than ranks.
    """

    data: ImageSet
    normalise: Normalise

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        if len(self.data) == 0:
            return
        pairs = zip(
            self.data.images.split(EVALUATION_BATCH),
            self.data.labels.split(EVALUATION_BATCH),
            strict=True,
        )
        for images, labels in pairs:
            yield self.normalise(images), labels
