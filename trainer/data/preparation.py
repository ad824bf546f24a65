"""From an archive as it was published to a prepared data set of arrays."""

import hashlib
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainer.data import store
from trainer.data.store import Description, Split
from trainer.errors import DataError

TOLERANCE = 1e-4

Report = Callable[[str], None]


@dataclass(frozen=True)
class Published:
    """A data set as it was published.

    Attributes:
        name: its name.
        classes: the class names; a label is an index into them.
        counts: images of each split, the same number of each class.
        shape: of an image, channels x height x width.
        means: of the training images per channel on a scale of 0 to 1; empty where unknown.
        deviations: standard deviations, likewise.
        first_labels: how each split begins; empty where unknown.
    """

    name: str
    classes: tuple[str, ...]
    counts: dict[str, int]
    shape: tuple[int, int, int]
    means: tuple[float, ...] = ()
    deviations: tuple[float, ...] = ()
    first_labels: dict[str, tuple[int, ...]] | None = None

    def check(self, splits: dict[str, Split]) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Compare decoded images and labels with what is known.

        Returns:
            The means and deviations of the training images per channel, on a scale of 0 to 1.

        Raises:
            DataError: counts, order of labels, or channel statistics differ.
        """
        for name, count in self.counts.items():
            split = splits[name]
            if split.images.shape != (count, *self.shape) or split.labels.shape != (count,):
                raise DataError(f"{name}: images of shape {split.images.shape}, expected {count}")
            per_class = np.bincount(split.labels, minlength=len(self.classes))
            if per_class.tolist() != [count // len(self.classes)] * len(self.classes):
                raise DataError(
                    f"{name}: images per class are {per_class.tolist()}, expected equal"
                )
            known_first = (self.first_labels or {}).get(name, ())
            first = tuple(split.labels[: len(known_first)].tolist())
            if first != known_first:
                raise DataError(f"{name}: first labels are {first}, expected {known_first}")
        means, deviations = store.channel_statistics(splits["train"].images)
        for what, actual, known in (
            ("means", means, self.means),
            ("deviations", deviations, self.deviations),
        ):
            if known and not np.allclose(actual, known, rtol=0, atol=TOLERANCE):
                raise DataError(f"channel {what} are {digits(actual)}, expected {digits(known)}")
        return means, deviations


def prepare(
    published: Published,
    source: Path,
    directory: Path,
    report: Report,
    decode: Callable[[Path, Report], dict[str, Split]],
) -> bool:
    """Decode an archive into a prepared data set.

    Args:
        published: what it must turn out to be.
        source: the archive, under any file name.
        directory: where the data set goes; it appears complete or not at all.
        report: called with a line of progress now and then.
        decode: reads the images of the archive; `DataError` where it is not the known one.

    Returns:
        Whether anything was written: a data set made from this same file is left alone.

    Raises:
        DataError: the archive is missing, damaged, or does not hold this data set.
    """
    if not source.is_file():
        raise DataError(f"no file {source}")
    sha256 = checksum(source, "sha256")
    if (directory / "dataset.json").exists():
        if store.read_description(directory).source_sha256 == sha256:
            for split in store.SPLITS:
                store.read_split(directory, split)
            return False
        report(f"{directory} was made from another file and will be replaced")
    try:
        splits = decode(source, report)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"cannot read {source}: {error}") from error
    means, deviations = published.check(splits)
    description = Description(
        name=published.name,
        classes=published.classes,
        train_images=len(splits["train"].labels),
        test_images=len(splits["test"].labels),
        channel_means=means,
        channel_deviations=deviations,
        source=source.name,
        source_sha256=sha256,
    )
    as_published = ": as published" if published.means else ""
    report(f"channel means {digits(means)}, deviations {digits(deviations)}{as_published}")
    store.write(directory, description, splits)
    return True


def expect_checksum(source: Path, algorithm: str, expected: str) -> None:
    """Compare a file's checksum.

    Raises:
        DataError: it is another one.
    """
    found = checksum(source, algorithm)
    if found != expected:
        raise DataError(f"{source} is damaged: its {algorithm} is {found}, expected {expected}")


def checksum(path: Path, algorithm: str) -> str:
    """A file's checksum in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()


def member(tar: tarfile.TarFile, name: str) -> bytes:
    """Read one file of an archive.

    Raises:
        DataError: it is not there.
    """
    try:
        stream = tar.extractfile(name)
    except KeyError:
        stream = None
    if stream is None:
        raise DataError(f"the archive has no file {name}")
    return stream.read()


def digits(values: tuple[float, ...]) -> str:
    """Statistics as people compare them."""
    return " ".join(f"{value:.5f}" for value in values)
