"""ImageNet (Russakovsky et al., 2015): 1,281,167 training and 50,000 validation photographs.

Its two archives are published as `ILSVRC2012_img_train.tar`, which holds a tar file for each of
1,000 classes, and `ILSVRC2012_img_val.tar`, a flat list of images. It lacks the classes of the
validation images: `imagenet_validation.txt.xz` beside this file has them, one class a line in the
order of the images' numbers, as tensorflow-datasets publishes it (Apache-2.0).

They become a folder for each class, beside the data set's own until all of them are right.
Unpacking can be interrupted at any moment and goes on with the class it had come to. A source that
has `train/` and `val/` with a folder for each class is taken as it is.
"""

import collections
import hashlib
import io
import lzma
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from trainer.atomic import write_json
from trainer.data import store
from trainer.data.decoding import check_images, damage, in_processes
from trainer.data.folder import DEVIATIONS, FOLDERS, MEANS, classes_of, find_files
from trainer.data.preparation import Report
from trainer.data.store import Description
from trainer.errors import DataError

NAME = "imagenet"
TRAIN_TAR = "ILSVRC2012_img_train.tar"
VALIDATION_TAR = "ILSVRC2012_img_val.tar"
VALIDATION_CLASSES = Path(__file__).with_name("imagenet_validation.txt.xz")


@dataclass(frozen=True)
class Counts:
    """How much there must be."""

    classes: int = 1_000
    train: int = 1_281_167
    validation: int = 50_000


@dataclass(frozen=True)
class _ClassFolder:
    """What one process unpacks at a time: the images of one class.

    Attributes:
        path: the folder to make, below that of the data set.
        members: name, position and size in bytes of each of its images, or of its own tar file.
    """

    archive: Path
    path: Path
    members: tuple[tuple[str, int, int], ...]

    @property
    def size(self) -> int:
        """Bytes that its images take, at the most."""
        return sum(size for _, _, size in self.members)


def prepare(
    source: Path,
    directory: Path,
    report: Report,
    counts: Counts = Counts(),
    validation_classes: Path = VALIDATION_CLASSES,
) -> bool:
    """Unpack both archives into a folder for each class, or check folders that are there.

    Args:
        source: the folder that holds the archives, or `train/` and `val/`.
        directory: where the data set goes; it appears, or changes, when all of it is right.
        report: called with a line of progress now and then.
        counts: how much there must be in the end.
        validation_classes: the class of each validation image, a line each, as text or xz.

    Returns:
        Whether anything was written: a data set of these archives is left alone, as folders are.

    Raises:
        DataError: an archive is missing or damaged, there is no room, or the counts differ.
    """
    if (source / FOLDERS["train"]).is_dir():
        if (source / TRAIN_TAR).exists():
            raise DataError(f"{source} holds {TRAIN_TAR} and train/: leave one of them there")
        _check_folders(source, counts, report)
        return False
    for name in (TRAIN_TAR, VALIDATION_TAR):
        if not (source / name).is_file():
            raise DataError(
                f"no file {source / name}; SOURCE= takes the folder that holds both archives, or "
                "train/ and val/ with a folder for each class"
            )
    folders = [
        *_train_folders(source / TRAIN_TAR),
        *_validation_folders(source / VALIDATION_TAR, validation_classes, counts),
    ]
    # What the archives list tells them from others; what they hold would take an hour to read.
    listed = hashlib.sha256(repr([(folder.path, folder.members) for folder in folders]).encode())
    digest = listed.hexdigest()
    is_there = (directory / "dataset.json").exists()
    if directory.exists() and not is_there:
        raise DataError(
            f"{directory} has no dataset.json: an earlier version left it half done, or it is "
            "somebody else's; move it away, and give the same command again"
        )
    scratch = directory.with_name(f".{directory.name}.{digest[:12]}")
    for other in directory.parent.glob(f".{directory.name}.{'[0-9a-f]' * 12}*"):
        # What attempts with other archives left, and what this has taken the place of.
        if other != scratch:
            shutil.rmtree(other)
    if is_there:
        if store.read_description(directory).source_sha256 == digest:
            return False
        report(f"{directory} was made from other archives and will be replaced")
    missing = [folder for folder in folders if not (scratch / folder.path).is_dir()]
    if len(missing) < len(folders):
        report(f"{len(folders) - len(missing)} of {len(folders)} folders are there already")
    _check_room(directory.parent, sum(folder.size for folder in missing))
    _in_processes(partial(_unpack, scratch), {str(each.path): each for each in missing}, report)
    try:
        classes = _count(scratch, counts)
    except DataError:
        # The tar file of a class that ends early in zeros looks whole, so any class may be short.
        shutil.rmtree(scratch)
        raise
    description = Description(
        name=NAME,
        classes=classes,
        train_images=counts.train,
        test_images=counts.validation,
        channel_means=MEANS,
        channel_deviations=DEVIATIONS,
        source=f"{TRAIN_TAR}, {VALIDATION_TAR}",
        source_sha256=digest,
        layout="folder",
    )
    write_json(scratch / "dataset.json", asdict(description))
    store.put(scratch, directory)
    report(f"{counts.classes:,} classes, {counts.train:,} and {counts.validation:,} images")
    return True


def _train_folders(archive: Path) -> Iterator[_ClassFolder]:
    with archive.open("rb") as stream:
        for inner in _members(stream, archive):
            if inner.name.endswith(".tar"):
                path = Path(FOLDERS["train"], Path(inner.name).stem)
                yield _ClassFolder(archive, path, ((inner.name, inner.offset_data, inner.size),))


def _validation_folders(
    archive: Path, classes_file: Path, counts: Counts
) -> Iterable[_ClassFolder]:
    content = classes_file.read_bytes()
    if classes_file.suffix == ".xz":
        content = lzma.decompress(content)
    classes = content.decode().split()
    by_class: dict[str, list[tuple[str, int, int]]] = collections.defaultdict(list)
    with archive.open("rb") as stream:
        for member in _members(stream, archive):
            name = Path(member.name).name
            # ILSVRC2012_val_00000001.JPEG is the first.
            number = Path(name).stem.rpartition("_")[2]
            if not number.isdecimal() or not 1 <= int(number) <= len(classes):
                raise DataError(
                    f"{archive} holds {name}, and {classes_file.name} has the classes of the "
                    f"images 1 to {len(classes)}"
                )
            by_class[classes[int(number) - 1]].append((name, member.offset_data, member.size))
    if (found := sum(map(len, by_class.values()))) != counts.validation:
        raise DataError(f"{archive} holds {found:,} images, expected {counts.validation:,}")
    for name, members in by_class.items():
        yield _ClassFolder(archive, Path(FOLDERS["test"], name), tuple(members))


def _members(stream: IO[bytes], archive: Path) -> Iterator[tarfile.TarInfo]:
    """The files of a tar file, to the mark of its end."""
    last = "its beginning"
    try:
        with tarfile.open(fileobj=stream, mode="r:") as tar:
            for member in tar:
                last = member.name
                if member.isreg():
                    yield member
            # tarfile takes one that is cut or damaged between two members for a whole one. A whole
            # one has a block of zeros at its end, and nothing but zeros after it.
            stream.seek(tar.offset)
            mark = stream.read(tarfile.BLOCKSIZE)
            rest = iter(partial(stream.read, tarfile.RECORDSIZE), b"")
            if len(mark) < tarfile.BLOCKSIZE or any(any(block) for block in (mark, *rest)):
                raise tarfile.ReadError("it does not end as a tar file does")
    except (tarfile.TarError, OSError) as error:
        raise DataError(
            f"{archive} is damaged or cut short behind {last}: {error}; fetch it again"
        ) from error


def _check_folders(source: Path, counts: Counts, report: Report) -> None:
    """See that folders of images are ImageNet's and can be decoded."""
    _count(source, counts)
    folders = [folder for part in FOLDERS.values() for folder in (source / part).iterdir()]
    _in_processes(
        _check_images,
        {str(folder.relative_to(source)): folder for folder in folders if folder.is_dir()},
        report,
    )


def _check_room(folder: Path, size: int) -> None:
    """See that what is to be unpacked has room."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if size > free:
        raise DataError(
            f"{folder} has {free / 1e9:,.1f} GB free, and the images take {size / 1e9:,.1f} GB: "
            "make room there, or use another dataset_cache"
        )


def _in_processes(work: Callable[[Any], None], items: dict[str, Any], report: Report) -> None:
    """Do something with each folder, one process a core."""
    if failed := in_processes(work, items, report):
        raise damage(
            f"{len(failed)} of {len(items)} folders are damaged:",
            failed,
            "with what is damaged fetched again, the same command does these alone",
        )


def _unpack(root: Path, folder: _ClassFolder) -> None:
    """Fill a folder beside its name, then give it the name: it is complete or not there."""
    target = root / folder.path
    scratch = target.with_name(f".{target.name}.partial")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        with folder.archive.open("rb") as stream:
            for name, offset, size in folder.members:
                stream.seek(offset)
                content = stream.read(size)
                if len(content) != size:
                    raise DataError(f"{folder.archive} ends within {name}; fetch it again")
                if name.endswith(".tar"):
                    _unpack_tar(content, folder.archive / name, scratch)
                else:
                    (scratch / name).write_bytes(content)
        _check_images(scratch)
        scratch.rename(target)
    except OSError as error:
        raise DataError(f"cannot unpack: {error}") from error


def _unpack_tar(content: bytes, name: Path, folder: Path) -> None:
    """Write the files of a class's own tar file, under the last part of their names alone."""
    with io.BytesIO(content) as stream:
        for member in _members(stream, name):
            begin = member.offset_data
            (folder / Path(member.name).name).write_bytes(content[begin : begin + member.size])


def _check_images(folder: Path) -> None:
    check_images(sorted(folder.iterdir()))


def _count(directory: Path, counts: Counts) -> tuple[str, ...]:
    """Count classes and images, and return the names of the classes."""
    classes = classes_of(directory)
    files = find_files(directory, classes, seed=0)
    for split, expected in (("train", counts.train), ("test", counts.validation)):
        images = len(files[split])
        if (images, len(classes)) != (expected, counts.classes):
            raise DataError(
                f"{FOLDERS[split]}/ holds {images:,} images in {len(classes):,} classes, expected "
                f"{expected:,} in {counts.classes:,}"
            )
    return classes
