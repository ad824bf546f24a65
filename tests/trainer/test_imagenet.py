"""ImageNet's way, with archives of its structure: four classes, three images each, one to judge."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from trainer.data import imagenet, store
from trainer.data.augment import Normalise
from trainer.data.folder import FileSet, FolderEvaluationBatches, FolderTrainingBatches
from trainer.data.imagenet import Counts
from trainer.data.sampler import ShardedSampler
from trainer.errors import DataError

CLASSES = ("n01440764", "n01443537", "n01484850", "n01491361")
COUNTS = Counts(classes=4, train=12, validation=4)
# Not in the order of the classes, as the real ones are not.
JUDGED = (2, 0, 3, 1)


def jpeg(level: int, size: tuple[int, int] = (40, 30)) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", size, (level, level, level)).save(stream, "jpeg")
    return stream.getvalue()


def add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "downloads"
    folder.mkdir()
    with tarfile.open(folder / imagenet.TRAIN_TAR, "w") as outer:
        for number, name in enumerate(CLASSES):
            inner = io.BytesIO()
            with tarfile.open(fileobj=inner, mode="w") as tar:
                for image in range(3):
                    add(tar, f"{name}_{image}.JPEG", jpeg(60 * number))
            add(outer, f"{name}.tar", inner.getvalue())
    with tarfile.open(folder / imagenet.VALIDATION_TAR, "w") as tar:
        for position, number in enumerate(JUDGED, start=1):
            add(tar, f"ILSVRC2012_val_{position:08}.JPEG", jpeg(60 * number))
    (folder / "classes.txt").write_text("".join(f"{CLASSES[number]}\n" for number in JUDGED))
    return folder


def prepare(source: Path, out: Path, counts: Counts = COUNTS) -> bool:
    return imagenet.prepare(source, out, lambda line: None, counts, source / "classes.txt")


@pytest.fixture
def prepared(source: Path, tmp_path: Path) -> Path:
    out = tmp_path / "imagenet"
    assert prepare(source, out)
    return out


def test_images_lie_in_folders_of_their_class(prepared: Path, source: Path) -> None:
    description = store.read_description(prepared)
    assert description.classes == CLASSES
    assert (description.train_images, description.test_images) == (12, 4)
    for number, name in enumerate(CLASSES):
        assert len(list((prepared / "train" / name).iterdir())) == 3
        (judged,) = (prepared / "val" / name).iterdir()
        assert judged.read_bytes() == jpeg(60 * number)
    assert not prepare(source, prepared)


def test_names_of_images_may_have_blanks(prepared: Path) -> None:
    index = prepared / "train_files.txt"
    first, *others = index.read_text().splitlines()
    name, _, image = first.partition("/")
    (prepared / "train" / first).rename(prepared / "train" / name / f"the {image}")
    index.write_text("\n".join([f"{name}/the {image}", *others, ""]))
    files = FileSet.load(prepared, "train", CLASSES)
    assert len(files) == 12


def test_unpacking_goes_on_where_it_was_interrupted(prepared: Path, source: Path) -> None:
    kept = prepared / "train" / CLASSES[0]
    before = {path: path.stat().st_mtime_ns for path in kept.iterdir()}
    # As an interruption leaves it: a class half done under another name, others not begun.
    (prepared / "dataset.json").unlink()
    (prepared / "train" / CLASSES[1]).rename(prepared / "train" / f".{CLASSES[1]}.partial")
    next((prepared / "train" / f".{CLASSES[1]}.partial").iterdir()).unlink()
    for path in (prepared / "val" / CLASSES[2]).iterdir():
        path.unlink()
    (prepared / "val" / CLASSES[2]).rmdir()

    assert prepare(source, prepared)

    assert {path: path.stat().st_mtime_ns for path in kept.iterdir()} == before
    assert len(list(prepared.glob("train/*/*.JPEG"))) == 12
    assert len(list(prepared.glob("val/*/*.JPEG"))) == 4
    assert list(prepared.glob("*/.*")) == []


def test_other_counts_are_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds 12 images in 4 classes, expected 13 in 4"):
        prepare(source, tmp_path / "imagenet", Counts(classes=4, train=13, validation=4))
    assert not (tmp_path / "imagenet" / "dataset.json").exists()


def test_archive_that_ends_early_is_refused(source: Path, tmp_path: Path) -> None:
    archive = source / imagenet.TRAIN_TAR
    with archive.open("r+b") as stream:
        stream.truncate(archive.stat().st_size - 15_000)
    with pytest.raises(DataError, match="cannot unpack"):
        prepare(source, tmp_path / "imagenet")


def test_missing_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file .*ILSVRC2012_img_train.tar"):
        prepare(tmp_path, tmp_path / "imagenet")


def test_classes_of_the_real_validation_images_are_known() -> None:
    import lzma

    classes = lzma.decompress(imagenet.VALIDATION_CLASSES.read_bytes()).decode().split()
    names, counts = np.unique(classes, return_counts=True)
    assert (len(names), set(counts.tolist())) == (1000, {50})
    # As every published script has them: image 1 a sea snake, image 293 the first tench.
    assert (classes[0], classes.index("n01440764")) == ("n01751748", 292)


def training(prepared: Path, rank: int, world_size: int) -> FolderTrainingBatches:
    files = FileSet.load(prepared, "train", CLASSES)
    sampler = ShardedSampler(len(files), 3, rank, world_size, seed=1)
    normalise = Normalise((0.0,) * 3, (1 / 255,) * 3)
    return FolderTrainingBatches(files, sampler, 32, 2, normalise, None, torch.device("cpu"))


def test_training_streams_disjoint_shards_of_cuts(prepared: Path) -> None:
    seen = []
    for rank in (0, 1):
        batches = list(training(prepared, rank, 2).epoch(1))
        assert len(batches) == 2
        for images, labels in batches:
            assert images.shape == (3, 3, 32, 32)
            # The level of grey tells the class; JPEG and scaling change it by a little.
            assert (images.mean(dim=(1, 2, 3)) / 60).round().long().tolist() == labels.tolist()
            seen += labels.tolist()
    assert sorted(seen) == sorted([0, 1, 2, 3] * 3)


def test_cuts_follow_from_seed_and_epoch(prepared: Path, source: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (30, 40, 3), np.uint8)
    for path in prepared.glob("train/*/*.JPEG"):
        Image.fromarray(noise).save(path)
    first, again, next_epoch = (
        torch.cat([images for images, _ in training(prepared, 0, 1).epoch(epoch)])
        for epoch in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, next_epoch)


def test_evaluation_sees_each_image_once(prepared: Path) -> None:
    files = FileSet.load(prepared, "test", CLASSES)
    normalise = Normalise((0.0,) * 3, (1 / 255,) * 3)
    batches = FolderEvaluationBatches(files, 32, 2, normalise, torch.device("cpu"))
    ((images, labels),) = batches
    assert images.shape == (4, 3, 32, 32)
    assert labels.tolist() == [0, 1, 2, 3]


def test_damaged_image_is_named(prepared: Path) -> None:
    broken = next((prepared / "train" / CLASSES[2]).iterdir())
    broken.write_bytes(broken.read_bytes()[:200])
    with pytest.raises(DataError, match=broken.name):
        list(training(prepared, 0, 1).epoch(1))
