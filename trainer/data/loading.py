"""The batches of a data set, however it is stored."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from trainer.config import TrainConfig
from trainer.data import store
from trainer.data.augment import Mixing, Normalise
from trainer.data.folder import FileSet, FolderEvaluationBatches, FolderTrainingBatches
from trainer.data.memory import EvaluationBatches, ImageSet, TrainingBatches
from trainer.data.sampler import ShardedSampler
from trainer.engines import Engine
from trainer.errors import ConfigError

# Edge in pixels of what is cut out of files, unless the configuration says otherwise.
FILE_IMAGE_SIZE = 224


class Epochs(Protocol):
    """Training batches of one rank, anew for every epoch."""

    @property
    def sampler(self) -> ShardedSampler:
        """What deals the images out."""
        ...

    def epoch(self, epoch: int, seen: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield images and labels of an epoch on the device.

        Args:
            epoch: the epoch, from 1.
            seen: images of it that all ranks together have seen; they are left out.
        """
        ...


@dataclass(frozen=True)
class Data:
    """A data set, ready to train on.

    Attributes:
        train: this rank's training batches.
        test: this rank's shard of the test images.
        description: of the data set on disk.
        image_size: edge of the images in pixels.
        train_images: number of training images of the whole world.
    """

    train: Epochs
    test: Iterable[tuple[Tensor, Tensor]]
    description: store.Description
    image_size: int
    train_images: int

    @property
    def dimensions(self) -> dict[str, int]:
        """What a model and a place in an epoch are for; of no use with other data."""
        return {
            "train_images": self.train_images,
            "classes": len(self.description.classes),
            "image_size": self.image_size,
        }


def load_data(config: TrainConfig, engine: Engine, device: torch.device) -> Data:
    """Open the data set that the configuration names.

    Arrays are held in memory, that of the device; files stay where they are.

    Raises:
        DataError: it is missing or damaged.
        ConfigError: it has too few images for the request.
    """
    directory = Path(config.data_dir) / config.dataset
    description = store.read_description(directory)
    normalise = Normalise(description.channel_means, description.channel_deviations)
    mixing = None
    if config.mixup or config.cutmix:
        mixing = Mixing(len(description.classes), config.mixup, config.cutmix)

    def sampler(images: int) -> ShardedSampler:
        return ShardedSampler(
            images, config.batch_per_rank, engine.rank, engine.world_size, config.seed
        )

    shard = engine.rank, engine.world_size
    if description.layout == "folder":
        size, workers = config.image_size or FILE_IMAGE_SIZE, config.workers
        classes = description.classes
        files = FileSet.load(directory, "train", classes, config.train_images, config.seed)
        test_files = FileSet.load(directory, "test", classes, None, config.seed).shard(*shard)
        return Data(
            FolderTrainingBatches(
                files, sampler(len(files)), size, workers, normalise, mixing, device
            ),
            FolderEvaluationBatches(test_files, size, workers, normalise, device),
            description,
            size,
            len(files),
        )
    images = ImageSet.load(directory, "train", config.train_images, config.seed)
    test_images = ImageSet.load(directory, "test").shard(*shard)
    size = images.images.shape[-1]
    if config.image_size not in (None, size):
        raise ConfigError(f"image_size {config.image_size}: {config.dataset} has {size}")
    return Data(
        TrainingBatches(
            images.to(device),
            sampler(len(images)),
            normalise,
            mixing,
            crops=description.augmentation == "crop_flip",
        ),
        EvaluationBatches(test_images.to(device), normalise),
        description,
        size,
        len(images),
    )
