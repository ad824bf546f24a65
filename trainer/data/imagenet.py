"""ImageNet (Russakovsky et al., 2015): 1,281,167 training and 50,000 validation photographs.

Its two archives are published as `ILSVRC2012_img_train.tar`, which holds a tar file for each of
1,000 classes, and `ILSVRC2012_img_val.tar`, a flat heap of images. Which class a validation image
belongs to is not in there: `imagenet_validation.txt.xz` beside this file has it, one class a line
in the order of the images' numbers, as tensorflow-datasets publishes it (Apache-2.0).

They become a folder for each class. Unpacking can be interrupted at any moment and goes on with
the class it had come to.
"""

import collections
import lzma
import os
import shutil
import tarfile
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from trainer.atomic import replacing, write_json
from trainer.data.folder import FOLDERS
from trainer.data.preparation import Report
from trainer.data.store import Description
from trainer.errors import DataError

NAME = "imagenet"
TRAIN_TAR = "ILSVRC2012_img_train.tar"
VALIDATION_TAR = "ILSVRC2012_img_val.tar"
VALIDATION_CLASSES = Path(__file__).with_name("imagenet_validation.txt.xz")
# Known from torchvision's reference training.
MEANS = (0.485, 0.456, 0.406)
DEVIATIONS = (0.229, 0.224, 0.225)
REPORT_EVERY = 50


@dataclass(frozen=True)
class Counts:
    """How much there must be.

    Attributes:
        classes: number of classes.
        train: number of training images.
        validation: number of validation images.
    """

    classes: int = 1_000
    train: int = 1_281_167
    validation: int = 50_000


@dataclass(frozen=True)
class _ClassFolder:
    """What one process unpacks at a time: the images of one class.

    Attributes:
        archive: the tar file.
        offset: where in it the class's own tar file begins; None where images lie flat.
        members: position and size in bytes of each flat image, by name.
        target: the folder to make.
    """

    archive: Path
    target: Path
    offset: int | None = None
    members: tuple[tuple[str, int, int], ...] = ()


def prepare(
    source: Path,
    directory: Path,
    report: Report,
    counts: Counts = Counts(),
    validation_classes: Path = VALIDATION_CLASSES,
) -> bool:
    """Unpack both archives into a folder for each class.

    Args:
        source: the folder that holds them.
        directory: where the data set goes; `dataset.json` appears there when it is complete.
        report: called with a line of progress now and then.
        counts: how much there must be in the end.
        validation_classes: the class of each validation image, a line each, as text or xz.

    Returns:
        Whether anything was written: a complete data set is left alone.

    Raises:
        DataError: an archive is missing or damaged, or the counts differ.
    """
    if (directory / "dataset.json").exists():
        return False
    for name in (TRAIN_TAR, VALIDATION_TAR):
        if not (source / name).is_file():
            raise DataError(f"no file {source / name}; SOURCE= takes the folder that holds it")
    try:
        folders = [
            *_train_folders(source / TRAIN_TAR, directory / FOLDERS["train"]),
            *_validation_folders(
                source / VALIDATION_TAR, directory / FOLDERS["test"], validation_classes
            ),
        ]
        _unpack(folders, report)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"cannot unpack {source}: {error}") from error
    classes = _complete(directory, counts)
    description = Description(
        name=NAME,
        classes=classes,
        train_images=counts.train,
        test_images=counts.validation,
        channel_means=MEANS,
        channel_deviations=DEVIATIONS,
        source=f"{TRAIN_TAR}, {VALIDATION_TAR}",
        source_sha256="",
        layout="folder",
    )
    write_json(directory / "dataset.json", asdict(description))
    report(f"{counts.classes:,} classes, {counts.train:,} and {counts.validation:,} images")
    return True


def _train_folders(archive: Path, root: Path) -> Iterable[_ClassFolder]:
    with tarfile.open(archive) as tar:
        for inner in tar:
            if inner.isreg() and inner.name.endswith(".tar"):
                name = Path(inner.name).stem
                yield _ClassFolder(archive, root / name, offset=inner.offset)


def _validation_folders(archive: Path, root: Path, classes_file: Path) -> Iterable[_ClassFolder]:
    content = classes_file.read_bytes()
    if classes_file.suffix == ".xz":
        content = lzma.decompress(content)
    classes = content.decode().split()
    by_class: dict[str, list[tuple[str, int, int]]] = collections.defaultdict(list)
    with tarfile.open(archive) as tar:
        for member in tar:
            if not member.isreg():
                continue
            name = Path(member.name).name
            # ILSVRC2012_val_00000001.JPEG is the first.
            number = int(Path(name).stem.rpartition("_")[2])
            if not 1 <= number <= len(classes):
                raise DataError(f"{archive} holds {name}; {classes_file} ends at {len(classes)}")
            by_class[classes[number - 1]].append((name, member.offset_data, member.size))
    for name, members in by_class.items():
        yield _ClassFolder(archive, root / name, members=tuple(members))


def _unpack(folders: list[_ClassFolder], report: Report) -> None:
    """Unpack what is not there yet, one process a core."""
    missing = [folder for folder in folders if not folder.target.is_dir()]
    if len(missing) < len(folders):
        report(f"{len(folders) - len(missing)} of {len(folders)} folders are there already")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        done = as_completed([pool.submit(_unpack_folder, folder) for folder in missing])
        try:
            for number, future in enumerate(done, start=1):
                future.result()
                if number % REPORT_EVERY == 0 or number == len(missing):
                    report(f"unpacked {number} of {len(missing)} folders")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _unpack_folder(folder: _ClassFolder) -> None:
    """Fill a folder beside its name, then give it the name: it is complete or not there."""
    scratch = folder.target.with_name(f".{folder.target.name}.partial")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    with folder.archive.open("rb") as stream:
        for name, offset, size in folder.members:
            stream.seek(offset)
            _write(scratch / name, stream.read(size), size)
    if folder.offset is not None:
        with folder.archive.open("rb") as stream:
            # A tar file that begins in the middle of another: its one member is the class's own.
            stream.seek(folder.offset)
            with tarfile.open(fileobj=stream, mode="r:") as outer:
                inner = outer.next()
                content = outer.extractfile(inner) if inner else None
                if content is None:
                    raise DataError(f"{folder.archive} has no tar file at {folder.offset}")
                with tarfile.open(fileobj=content, mode="r:") as tar:
                    for member in tar:
                        image = tar.extractfile(member)
                        if image is not None:
                            # The last part of the name alone: nothing is written elsewhere.
                            _write(scratch / Path(member.name).name, image.read(), member.size)
    scratch.rename(folder.target)


def _write(path: Path, content: bytes, size: int) -> None:
    if len(content) != size:
        raise DataError(f"the archive ends within {path.name}")
    path.write_bytes(content)


def _complete(directory: Path, counts: Counts) -> tuple[str, ...]:
    """Count what was unpacked, write the lists of files, and return the names of the classes."""
    names: dict[str, tuple[str, ...]] = {}
    for split, expected in (("train", counts.train), ("test", counts.validation)):
        root = directory / FOLDERS[split]
        names[split] = tuple(
            sorted(
                path.name
                for path in root.iterdir()
                if path.is_dir() and not path.name.startswith(".")
            )
        )
        files = [
            f"{name}/{file}" for name in names[split] for file in sorted(os.listdir(root / name))
        ]
        if len(files) != expected or len(names[split]) != counts.classes:
            raise DataError(
                f"{root} holds {len(files):,} images in {len(names[split]):,} classes, "
                f"expected {expected:,} in {counts.classes:,}; remove what is wrong there and "
                "try again"
            )
        with replacing(directory / f"{FOLDERS[split]}_files.txt") as stream:
            stream.write("".join(f"{file}\n" for file in files).encode())
    if names["train"] != names["test"]:
        raise DataError("training and validation images are not of the same classes")
    return names["train"]
