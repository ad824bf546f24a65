"""From an archive as it was published to a prepared data set of arrays."""

import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from trainer.checksum import file_checksum
from trainer.data import store
from trainer.data.store import Description, Split
from trainer.errors import DataError

# Of channel means and deviations on a scale of 0 to 1: they are published with four to five digits.
TOLERANCE = 1e-4
ARCHIVES = Path(__file__).with_name("archives.yml")

Report = Callable[[str], None]


@dataclass(frozen=True)
class Published:
    """A data set as it was published.

    Attributes:
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
        """Compare decoded images and labels with what was published.

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
            expected = (self.first_labels or {}).get(name, ())
            first = tuple(split.labels[: len(expected)].tolist())
            if first != expected:
                raise DataError(f"{name}: first labels are {first}, expected {expected}")
        means, deviations = store.channel_statistics(splits["train"].images)
        for name, actual, published in (
            ("means", means, self.means),
            ("deviations", deviations, self.deviations),
        ):
            if published and not np.allclose(actual, published, rtol=0, atol=TOLERANCE):
                raise DataError(
                    f"channel {name} are {digits(actual)}, expected {digits(published)}"
                )
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
        source: the archive, under any file name.
        directory: where the data set goes; it appears complete or not at all.
        report: called with a line of progress now and then.
        decode: reads the images of the archive; `DataError` where it is another one.

    Returns:
        Whether anything was written: a data set made from this same file is left alone.

    Raises:
        DataError: the archive is missing, damaged, or does not hold this data set.
    """
    if not source.is_file():
        raise DataError(f"no file {source}")
    sha256 = file_checksum(source, "sha256")
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


def expect_checksum(source: Path, name: str, archive: str) -> None:
    """Compare a file's checksum with that of the published archive.

    Args:
        archive: which archive of the data set, a key in archives.yml.

    Raises:
        DataError: it is another one.
    """
    algorithm, expected = published_checksum(name, archive)
    actual = file_checksum(source, algorithm)
    if actual != expected:
        raise DataError(f"{source} is damaged: its {algorithm} is {actual}, expected {expected}")


def published_checksum(name: str, archive: str) -> tuple[str, str]:
    """Algorithm and checksum of an archive of a data set."""
    algorithm, _, checksum = yaml.safe_load(ARCHIVES.read_text())[name][archive].partition(":")
    return algorithm, checksum


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
