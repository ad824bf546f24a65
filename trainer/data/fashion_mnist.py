"""Fashion-MNIST (Xiao et al., 2017): 70,000 grey images of clothes, 28 x 28 pixels, ten classes.

The source is Debian's package `dataset-fashion-mnist`. Its compressed files differ from the
authors' in their headers, their content does not: that is what the checksums here are of.
"""

import gzip
import hashlib
import io
import subprocess
import tarfile
from pathlib import Path

import numpy as np

from trainer.data import preparation
from trainer.data.preparation import Published, Report, member
from trainer.data.store import Split
from trainer.errors import DataError

EDGE = 28
# Two pixels of black on each side: 32 x 32, what models for small images are made for.
BORDER = 2
FOLDER = "./usr/share/datasets/fashion-mnist"
CONTENT_SHA256 = {
    "train-images-idx3": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
PREFIXES = {"train": "train", "test": "t10k"}
# The header of an idx file: a magic number, then four bytes for each dimension.
HEADER = {"images-idx3": 16, "labels-idx1": 8}

PUBLISHED = Published(
    name="fashion_mnist",
    classes=(
        "t-shirt", "trouser", "pullover", "dress", "coat",
        "sandal", "shirt", "sneaker", "bag", "boot",
    ),
    counts={"train": 60_000, "test": 10_000},
    shape=(1, EDGE + 2 * BORDER, EDGE + 2 * BORDER),
    first_labels={
        "train": (9, 0, 0, 3, 0, 2, 7, 2, 5, 5),
        "test": (9, 2, 1, 1, 6, 1, 4, 6, 5, 7),
    },
)  # fmt: skip


def prepare(source: Path, directory: Path, report: Report) -> bool:
    """Decode the package into a prepared data set; see `preparation.prepare`."""
    return preparation.prepare(PUBLISHED, source, directory, report, _decode)


def _decode(source: Path, report: Report) -> dict[str, Split]:
    done = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", str(source)], capture_output=True, check=False
    )
    if done.returncode:
        raise DataError(f"{source} is not a Debian package: {done.stderr.decode().strip()}")
    splits = {}
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        for split, prefix in PREFIXES.items():
            report(f"decoding {split}")
            images = _values(tar, prefix, "images-idx3").reshape(-1, 1, EDGE, EDGE)
            padded = np.pad(images, ((0, 0), (0, 0), (BORDER, BORDER), (BORDER, BORDER)))
            splits[split] = Split(padded, _values(tar, prefix, "labels-idx1"))
    return splits


def _values(tar: tarfile.TarFile, prefix: str, kind: str) -> np.ndarray:
    name = f"{prefix}-{kind}"
    content = gzip.decompress(member(tar, f"{FOLDER}/{name}-ubyte.gz"))
    actual, expected = hashlib.sha256(content).hexdigest(), CONTENT_SHA256[name]
    if actual != expected:
        raise DataError(f"{name} is damaged: its sha256 is {actual}, expected {expected}")
    return np.frombuffer(content, dtype=np.uint8, offset=HEADER[kind]).copy()
