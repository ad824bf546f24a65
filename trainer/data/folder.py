"""Images that stay files: read, cut and scaled by threads while the model computes."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from trainer.data import store
from trainer.data.augment import Mixing, Normalise, Policy
from trainer.data.sampler import ShardedSampler, random_seed, training_and_validation
from trainer.data.share import cannot_read
from trainer.data.store import Description
from trainer.errors import DataError

FOLDERS = {"train": "train", "test": "val"}
# Where there are these three, the validation split is parted too.
ALL_FOLDERS = {"train": "train", "validation": "val", "test": "test"}
# Of one folder that nobody has parted, so much of each class is the test set.
TEST_FRACTION = 0.1
# Of ImageNet, known from torchvision's reference training; usual for other photographs too.
MEANS = (0.485, 0.456, 0.406)
DEVIATIONS = (0.229, 0.224, 0.225)
EVALUATION_BATCH = 100
# Batches in preparation beside the one in use.
AHEAD = 2
# The usual cut of ImageNet training (Szegedy et al., 2015): an area of 8 to 100 %, a ratio of the
# edges between 3:4 and 4:3.
AREA = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
# Evaluation scales the shorter edge to 256 for images of 224, then takes the middle.
EVALUATION_MARGIN = 256 / 224
# What Pillow raises for files that are damaged, or say that they are larger than any photograph.
# A tag of a TIFF that has another type is a TypeError.
UNDECODABLE = (OSError, SyntaxError, TypeError, ValueError, Image.DecompressionBombError)

Load = Callable[[Path, int], np.ndarray]


@dataclass(frozen=True)
class FileSet:
    """Image files and their classes.

    Attributes:
        files: paths below `root`, `class/file`.
        labels: int64, one per file.
    """

    root: Path
    files: tuple[str, ...]
    labels: Tensor

    def __len__(self) -> int:
        return len(self.files)

    def shard(self, rank: int, world_size: int) -> "FileSet":
        """Every `world_size`-th file from the `rank`-th on: all shards together are the set."""
        return FileSet(
            self.root, self.files[rank::world_size], self.labels[rank::world_size].clone()
        )

    @classmethod
    def below(cls, root: Path, classes: tuple[str, ...]) -> "FileSet":
        """Find the image files of these classes below a folder, in the order of their paths.

        Raises:
            DataError: a class has no image, or the folder cannot be read.
        """
        # To import it takes every rank a second.
        from torchvision.datasets.folder import IMG_EXTENSIONS, make_dataset

        numbers = {name: number for number, name in enumerate(classes)}
        try:
            samples = make_dataset(root, numbers, IMG_EXTENSIONS)
        except OSError as error:
            raise cannot_read(root, error, f"{root}: {error}") from error
        files = tuple(path[len(f"{root}/") :] for path, _ in samples)
        return cls(root, files, torch.tensor([label for _, label in samples]))

    def chosen(self, numbers: Tensor) -> "FileSet":
        """Those of these numbers."""
        files = tuple(self.files[number] for number in numbers.tolist())
        return FileSet(self.root, files, self.labels[numbers])


def classes_of(directory: Path) -> tuple[str, ...]:
    """Names of the classes of a data set of files, which are its folders.

    Raises:
        DataError: there are none, or training and test images have others.
    """
    # As in `FileSet.below`.
    from torchvision.datasets.folder import find_classes

    roots = [directory / folder for folder in _parted(directory).values()] or [directory]
    try:
        train, *test = (find_classes(root)[0] for root in roots)
    except OSError as error:
        raise cannot_read(
            directory,
            error,
            f"{directory} is no data set of images: {error} It has train/ and val/ with a folder "
            "for each class, or the folders of the classes",
        ) from error
    for root, classes in zip(roots[1:], test, strict=True):
        if differ := sorted(set(train).symmetric_difference(classes)):
            raise DataError(
                f"{directory}: train/ and {root.name}/ have different classes: "
                + ", ".join(differ[:5])
                + (f" and {len(differ) - 5} more" if len(differ) > 5 else "")
            )
    return tuple(train)


def _parted(directory: Path) -> dict[str, str]:
    """The folders that a data set is parted into, by split; none where nobody has parted it."""
    if not (directory / FOLDERS["train"]).is_dir():
        return {}
    folders = [directory / folder for folder in ALL_FOLDERS.values()]
    if not all(folder.is_dir() for folder in folders):
        return FOLDERS
    # Images of which nobody has told the class, as in ImageNet's test/, are in no folder of one.
    with os.scandir(folders[-1]) as entries:
        return ALL_FOLDERS if any(entry.is_dir() for entry in entries) else FOLDERS


def find_files(directory: Path, classes: tuple[str, ...], seed: int) -> dict[str, FileSet]:
    """Find the image files of a data set, by split, in the order of their paths.

    Args:
        directory: the data set: `train/` and `val/` with a folder for each class, and `test/`
            where there is one; or one folder with the folders of the classes, of which the seed
            parts the test set.

    Raises:
        DataError: a class has no image, or the data set cannot be read.
        ConfigError: a class has too few images to be parted.
    """
    if parted := _parted(directory):
        return {
            split: FileSet.below(directory / folder, classes) for split, folder in parted.items()
        }
    whole = FileSet.below(directory, classes)
    parts = training_and_validation(whole.labels, None, TEST_FRACTION, seed)
    return {split: whole.chosen(part) for split, part in zip(store.SPLITS, parts, strict=True)}


def is_folder(directory: Path) -> bool:
    """Whether a data set is one of files, with a `dataset.json` or without.

    Raises:
        DataError: there is none, or it is damaged.
    """
    is_prepared = (directory / "dataset.json").exists()
    if is_prepared or not directory.is_dir() or not any(directory.iterdir()):
        return store.read_description(directory).layout == "folder"
    return True


def read_data_set(directory: Path, seed: int) -> tuple[Description, dict[str, FileSet]]:
    """Tell what a data set is, and find its files by split; of one of arrays there are none.

    Args:
        seed: parts the test set, where the folder has not.

    Raises:
        DataError: it cannot be read, or has more or fewer images than its `dataset.json` says.
        ConfigError: a class has too few images.
    """
    if not is_folder(directory):
        return store.read_description(directory), {}
    classes = classes_of(directory)
    files = find_files(directory, classes, seed)
    test = len(files["test"])
    # As with all others, what is held out of them counts.
    train = sum(map(len, files.values())) - test
    if not (directory / "dataset.json").exists():
        given = directory.name, classes, train, test, MEANS, DEVIATIONS
        return Description(*given, source=directory.name, source_sha256="", layout="folder"), files
    description = store.read_description(directory)
    if (train, test) != (description.train_images, description.test_images):
        raise DataError(
            f"{directory} has {train:,} and {test:,} images, and its dataset.json says "
            f"{description.train_images:,} and {description.test_images:,}; prepare it again"
        )
    return description, files


@dataclass(frozen=True)
class FolderTrainingBatches:
    """One rank's batches of random cuts, the same for the same seed, place in the epoch and rank.

    Threads do the reading: JPEG decoding and scaling happen outside Python's lock, and a process
    that has joined MPI must not be forked.

    Attributes:
        data: the training files of the whole world.
        image_size: edge of the cuts in pixels.
        workers: number of threads.
        crops: whether images are cut and flipped at random; else it is the middle.
        policy: what they go through after that; None for nothing.
    """

    data: FileSet
    sampler: ShardedSampler
    image_size: int
    workers: int
    normalise: Normalise
    mixing: Mixing | None
    device: torch.device
    crops: bool = True
    policy: Policy | None = None

    def epoch(self, epoch: int, seen: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield images (float32, batch x channels x height x width) and labels."""

        def load(path: Path, number: int) -> np.ndarray:
            if not self.crops:
                return middle(_open(path), self.image_size)
            random = Random(random_seed(self.sampler.seed, epoch, number))
            return random_cut(_open(path), self.image_size, random)

        batches = _stream(self.data, self.sampler.epoch(epoch, seen), load, self.workers)
        generators = self.sampler.generators(epoch, seen)
        for (images, labels), generator in zip(batches, generators, strict=True):
            if self.policy:
                images = self.policy(images, generator)
            floats = self.normalise(images.to(self.device, non_blocking=True))
            batch = floats, labels.to(self.device)
            yield self.mixing(*batch, generator) if self.mixing else batch


@dataclass(frozen=True)
class FolderEvaluationBatches:
    """A rank's shard of a split in order, every image once, its middle.

    Attributes:
        data: the files of this rank.
        image_size, workers: as for training.
        margin: see `middle`.
    """

    data: FileSet
    image_size: int
    workers: int
    normalise: Normalise
    device: torch.device
    margin: float = EVALUATION_MARGIN

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        def load(path: Path, number: int) -> np.ndarray:
            return middle(_open(path), self.image_size, self.margin)

        batches = iter(torch.arange(len(self.data)).split(EVALUATION_BATCH))
        for images, labels in _stream(self.data, batches, load, self.workers):
            yield self.normalise(images.to(self.device)), labels.to(self.device)


def random_cut(image: Image.Image, edge: int, random: Random) -> np.ndarray:
    """Cut a random part out, scale it to a square, mirror it half the time.

    Returns:
        uint8, 3 x edge x edge.
    """
    width, height = image.size
    box = (0, 0, width, height)
    for _ in range(10):
        area = width * height * random.uniform(*AREA)
        ratio = np.exp(random.uniform(*np.log(RATIO)))
        wide, high = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if 0 < wide <= width and 0 < high <= height:
            left, top = random.randint(0, width - wide), random.randint(0, height - high)
            box = (left, top, left + wide, top + high)
            break
    square = image.resize((edge, edge), Image.Resampling.BILINEAR, box=box)
    if random.random() < 0.5:
        square = square.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.asarray(square).transpose(2, 0, 1)


def middle(image: Image.Image, edge: int, margin: float = EVALUATION_MARGIN) -> np.ndarray:
    """Scale the shorter edge to `margin` times `edge` and take the middle.

    Returns:
        uint8, 3 x edge x edge.
    """
    part = min(image.size) / margin
    left, top = ((length - part) / 2 for length in image.size)
    box = (left, top, left + part, top + part)
    return np.asarray(image.resize((edge, edge), Image.Resampling.BILINEAR, box=box)).transpose(
        2, 0, 1
    )


def _open(path: Path) -> Image.Image:
    """Read and decode a file."""
    try:
        with Image.open(path) as image:
            if image.mode.startswith("I;16") or (image.mode, image.format) == ("I", "PPM"):
                # Pillow would cut what is above 255 off.
                return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
            return image.convert("RGB")
    except UNDECODABLE as error:
        raise cannot_read(path, error, f"cannot read the image {path}: {error}") from error


def _stream(
    data: FileSet, batches: Iterator[Tensor], load: Load, workers: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of uint8 images and labels in order, loading some batches ahead."""
    waiting: deque[tuple[list[Future[np.ndarray]], Tensor]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="images")

    def collect() -> tuple[Tensor, Tensor]:
        futures, indices = waiting.popleft()
        images = np.stack([future.result() for future in futures])
        return torch.from_numpy(images), data.labels[indices]

    try:
        for indices in batches:
            paths = [(data.root / data.files[number], number) for number in indices.tolist()]
            waiting.append(([pool.submit(load, *entry) for entry in paths], indices))
            if len(waiting) > AHEAD:
                yield collect()
        while waiting:
            yield collect()
    finally:
        # An error, or a consumer that stops early, must not wait for what nobody will use, nor for
        # a network share that may never answer.
        pool.shutdown(wait=False, cancel_futures=True)
