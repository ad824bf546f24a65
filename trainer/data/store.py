"""A prepared data set on disk: four arrays and a description.

* `train_images.npy`, `test_images.npy`: uint8, images x channels x height x width
* `train_labels.npy`, `test_labels.npy`: uint8, one per image
* `dataset.json`: the fields of `Description`
"""

import dataclasses
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainer.errors import DataError

SPLITS = ("train", "test")


@dataclass(frozen=True)
class Description:
    """What a prepared data set is.

    Attributes:
        name: its name.
        classes: the class names; a label is an index into them.
        train_images: number of training images.
        test_images: number of test images.
        channel_means: of the training images, per channel, on a scale of 0 to 1.
        channel_deviations: standard deviations, likewise.
        source: file name of what it was made from.
        source_sha256: that file's checksum.
    """

    name: str
    classes: tuple[str, ...]
    train_images: int
    test_images: int
    channel_means: tuple[float, ...]
    channel_deviations: tuple[float, ...]
    source: str
    source_sha256: str


@dataclass(frozen=True)
class Split:
    """Images of one half of a data set.

    Attributes:
        images: uint8, images x channels x height x width.
        labels: uint8, one per image.
    """

    images: np.ndarray
    labels: np.ndarray


def channel_statistics(images: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Means and standard deviations per channel on a scale of 0 to 1.

    They follow from the histogram of the 256 values, exactly and without a copy as floats.

    Args:
        images: uint8, images x channels x height x width.
    """
    values = np.arange(256) / 255
    means, deviations = [], []
    for channel in range(images.shape[1]):
        counts = np.bincount(images[:, channel].ravel(), minlength=256)
        mean = float(np.average(values, weights=counts))
        means.append(mean)
        deviations.append(float(np.sqrt(np.average((values - mean) ** 2, weights=counts))))
    return tuple(means), tuple(deviations)


def read_description(directory: Path) -> Description:
    """Read the description of a prepared data set.

    Raises:
        DataError: there is none, or it is not readable.
    """
    path = directory / "dataset.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        lists = {key: tuple(value) for key, value in document.items() if isinstance(value, list)}
        return Description(**{**document, **lists})
    except FileNotFoundError as error:
        raise DataError(
            f"no prepared data set in {directory}: dataset.json is missing; prepare it first"
        ) from error
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is damaged: {error}") from error


def read_split(directory: Path, split: str) -> Split:
    """Map one split of a prepared data set into memory, without reading it yet.

    Raises:
        DataError: an array is missing, damaged, or does not agree with the description.
    """
    description = read_description(directory)
    count = {"train": description.train_images, "test": description.test_images}[split]
    try:
        images = np.load(directory / f"{split}_images.npy", mmap_mode="r")
        labels = np.load(directory / f"{split}_labels.npy")
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the {split} split in {directory}: {error}") from error
    channels = len(description.channel_means)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:2] != (count, channels):
        raise DataError(
            f"{directory}: {split} images are {images.dtype} of shape {images.shape}, "
            f"expected uint8 of {count} x {channels} x height x width"
        )
    if labels.shape != (count,) or labels.max() >= len(description.classes):
        raise DataError(
            f"{directory}: {split} labels must be {count} numbers below {len(description.classes)}"
        )
    return Split(images, labels)


def write(directory: Path, description: Description, splits: dict[str, Split]) -> None:
    """Write a prepared data set; the directory appears complete or not at all.

    What was in its place before is replaced.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        for name in SPLITS:
            np.save(scratch / f"{name}_images.npy", splits[name].images)
            np.save(scratch / f"{name}_labels.npy", splits[name].labels)
        text = json.dumps(dataclasses.asdict(description), indent=2)
        (scratch / "dataset.json").write_text(text + "\n", encoding="utf-8")
        scratch.chmod(0o755)  # mkdtemp makes it private, but the training user reads it
        if directory.exists():
            old = scratch.with_name(scratch.name + ".old")
            os.rename(directory, old)
            os.rename(scratch, directory)
            shutil.rmtree(old)
        else:
            os.rename(scratch, directory)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
