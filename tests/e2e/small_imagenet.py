"""Archives of ImageNet's structure with a few images, and what an inventory says of them."""

import io
import tarfile
from pathlib import Path

from PIL import Image

CLASSES = ("n01440764", "n01443537", "n01484850", "n01491361")
# Of each class four to train on, and one to judge
TRAIN_IMAGES, VALIDATION_IMAGES = 16, 4
# How much there must be, in the form of the variable dataset_counts
COUNTS = f"{len(CLASSES)},{TRAIN_IMAGES},{VALIDATION_IMAGES}"
# The file with the class of each validation image, for dataset_validation_classes
VALIDATION_CLASSES = "classes.txt"


def write_archives(folder: Path) -> None:
    """Write the archives that SOURCE= takes."""
    with tarfile.open(folder / "ILSVRC2012_img_train.tar", "w") as outer:
        for number, name in enumerate(CLASSES):
            images = {f"{name}_{image}.JPEG": _jpeg(number) for image in range(4)}
            _add(outer, f"{name}.tar", _tar(images))
    images = {f"ILSVRC2012_val_{n + 1:08}.JPEG": _jpeg(n) for n in range(len(CLASSES))}
    (folder / "ILSVRC2012_img_val.tar").write_bytes(_tar(images))
    (folder / VALIDATION_CLASSES).write_text("".join(f"{name}\n" for name in CLASSES))


def _tar(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in files.items():
            _add(tar, name, content)
    return stream.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def _jpeg(level: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (40, 36), (60 * level,) * 3).save(stream, "jpeg")
    return stream.getvalue()
