"""A prepared data set on disk: four arrays, or two folders of files, and a description.

* `train_images.npy`, `test_images.npy`: uint8, images x channels x height x width
* `train_labels.npy`, `test_labels.npy`: uint8, one per image
* `train/`, `val/`: a folder for each class with its images, files of any size
* `dataset.json`: the fields of `Description`
"""

import dataclasses
import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from trainer.atomic import write_json
from trainer.checksum import file_checksum
from trainer.data.share import cannot_read
from trainer.errors import DataError, DatasetMissingError

SPLITS = ("train", "test")


@dataclass(frozen=True)
class Description:
    """What a prepared data set is.

    Attributes:
        classes: the class names; a label is an index into them.
        channel_means: of the training images, per channel, on a scale of 0 to 1.
        channel_deviations: standard deviations, likewise.
        source: file name of what it was made from.
        source_sha256: that file's checksum; of ImageNet that of what its archives list. Empty for
            a folder of a user's own.
        layout: "arrays", or "folder" for sets that do not fit in memory.
        augmentation: what training images go through: "crop_flip" or "none". Files are always
            cut at random and flipped.
        sha256: checksums of the arrays, by file.
    """

    name: str
    classes: tuple[str, ...]
    train_images: int
    test_images: int
    channel_means: tuple[float, ...]
    channel_deviations: tuple[float, ...]
    source: str
    source_sha256: str
    layout: str = "arrays"
    augmentation: str = "crop_flip"
    sha256: dict[str, str] = field(default_factory=dict)


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
        raise DatasetMissingError(path=str(directory)) from error
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise cannot_read(path, error, f"{path} is damaged: {error}") from error


def read_split(directory: Path, split: str) -> Split:
    """Map one split of a prepared data set into memory, without reading it yet.

    Raises:
        DataError: an array is missing, damaged, or does not agree with the description.
    """
    description = read_description(directory)
    count = {"train": description.train_images, "test": description.test_images}[split]
    try:
        for file in (f"{split}_images.npy", f"{split}_labels.npy"):
            _check_sum(directory / file, description.sha256.get(file))
        images = np.load(directory / f"{split}_images.npy", mmap_mode="r")
        labels = np.load(directory / f"{split}_labels.npy")
    except (OSError, ValueError) as error:
        message = f"cannot read the {split} split in {directory}: {error}"
        raise cannot_read(directory, error, message) from error
    channels = len(description.channel_means)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:2] != (count, channels):
        raise DataError(
            f"{directory}: {split} images are {images.dtype} of shape {images.shape}, "
            f"expected uint8 of {count} x {channels} x height x width"
        )
    if labels.dtype != np.uint8 or labels.shape != (count,):
        raise DataError(f"{directory}: {split} labels are {labels.shape}, expected {count} bytes")
    worst = int(labels.argmax())
    if labels[worst] >= len(description.classes):
        raise DataError(
            f"{directory}: label {labels[worst]} of {split} image {worst} is out of range; "
            f"there are {len(description.classes)} classes, counted from 0"
        )
    return Split(images, labels)


def _check_sum(path: Path, expected: str | None) -> None:
    """Compare a file's checksum; sets prepared by an earlier version have none."""
    if expected is None:
        return
    actual = file_checksum(path, "sha256")
    if actual != expected:
        raise DataError(
            f"{path} is damaged: its sha256 is {actual}, expected {expected}; prepare it again"
        )


def write(directory: Path, description: Description, splits: dict[str, Split]) -> None:
    """Write a prepared data set; the directory appears complete or not at all.

    What was in its place before is replaced.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        sums = {}
        for name in SPLITS:
            for kind, values in (("images", splits[name].images), ("labels", splits[name].labels)):
                path = scratch / f"{name}_{kind}.npy"
                np.save(path, values)
                sums[path.name] = file_checksum(path, "sha256")
        write_json(
            scratch / "dataset.json",
            dataclasses.asdict(dataclasses.replace(description, sha256=sums)),
        )
        scratch.chmod(0o755)  # mkdtemp makes it private, but the training user reads it
        put(scratch, directory)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def put(scratch: Path, directory: Path) -> None:
    """Give a complete data set its place beside it; what was there before goes."""
    if directory.exists():
        old = scratch.with_name(scratch.name + ".old")
        os.rename(directory, old)
        os.rename(scratch, directory)
        shutil.rmtree(old)
    else:
        os.rename(scratch, directory)
