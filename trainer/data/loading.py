"""The batches of a data set, however it is stored."""

import os
import socket
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from trainer.config import POLICIES, TrainConfig
from trainer.data import store
from trainer.data.augment import Mixing, Normalise, Policy
from trainer.data.folder import (
    FileSet,
    FolderEvaluationBatches,
    FolderTrainingBatches,
    read_data_set,
)
from trainer.data.memory import EvaluationBatches, ImageSet, TrainingBatches
from trainer.data.sampler import ShardedSampler, training_and_validation
from trainer.engines import Engine
from trainer.errors import ConfigError, DataError

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
        validation: this rank's shard of the validation split, which checkpoints are chosen by.
        test: this rank's shard of the test images, which are looked at once, at the end.
        image_size: edge of the images in pixels.
        train_images: number of training images of the whole world.
        validation_images: number of images of the validation split; 0 for none.
    """

    train: Epochs
    validation: Iterable[tuple[Tensor, Tensor]]
    test: Iterable[tuple[Tensor, Tensor]]
    description: store.Description
    image_size: int
    train_images: int
    validation_images: int

    @property
    def dimensions(self) -> dict[str, int]:
        """What a model and a place in an epoch are for; of no use with other data."""
        return {
            "train_images": self.train_images,
            "validation_images": self.validation_images,
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
    description, files = read_data_set(directory, config.seed)
    if files:
        check_same(files, engine)
    normalise = Normalise(description.channel_means, description.channel_deviations)
    mixing = None
    if config.mixup or config.cutmix:
        mixing = Mixing(len(description.classes), config.mixup, config.cutmix)

    crops = config.augment != "none"
    policy = Policy(config.augment) if config.augment in POLICIES else None

    def sampler(images: int) -> ShardedSampler:
        return ShardedSampler(
            images, config.batch_per_rank, engine.rank, engine.world_size, config.seed
        )

    shard = engine.rank, engine.world_size
    if files:
        size = config.image_size or FILE_IMAGE_SIZE
        # The launch gives a rank its part of the cores to compute with.
        workers = config.workers or torch.get_num_threads()
        all_files = files["train"]
        own = files.get("validation")
        fraction = config.validation_fraction if own is None else 0.0
        train, held_out = training_and_validation(
            all_files.labels, config.train_images, fraction, config.seed
        )
        trained, validation = all_files.chosen(train), own or all_files.chosen(held_out)

        def shown(those: FileSet) -> FolderEvaluationBatches:
            return FolderEvaluationBatches(those.shard(*shard), size, workers, normalise, device)

        return Data(
            FolderTrainingBatches(
                trained,
                sampler(len(trained)),
                size,
                workers,
                normalise,
                mixing,
                device,
                crops,
                policy,
            ),
            shown(validation),
            shown(files["test"]),
            description,
            size,
            len(trained),
            len(validation),
        )
    images, held_out_images = ImageSet.load_training(
        directory, config.train_images, config.validation_fraction, config.seed
    )
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
            crops=crops and description.augmentation == "crop_flip",
            policy=policy,
        ),
        EvaluationBatches(held_out_images.shard(*shard).to(device), normalise),
        EvaluationBatches(test_images.to(device), normalise),
        description,
        size,
        len(images),
        len(held_out_images),
    )


def check_same(files: dict[str, FileSet], engine: Engine) -> None:
    """See that all ranks have the same files: each deals them out to itself.

    Raises:
        DataError: a host has others.
    """
    names = "\n".join(name for split in files.values() for name in split.files)
    digest = zlib.crc32(os.fsencode(names))
    test = len(files["test"])
    counts = [sum(map(len, files.values())) - test, test]
    first, *others = engine.gather([digest, counts, socket.gethostname()])
    for other in others:
        if other[0] != first[0]:
            told = [f"{host}: {train:,} and {test:,}" for _, (train, test), host in (first, other)]
            raise DataError(
                f"the nodes have different images for training and test ({'; '.join(told)}): "
                "put the data set there again with make data"
            )
