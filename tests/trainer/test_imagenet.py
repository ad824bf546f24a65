"""ImageNet's way, with archives of its structure: four classes, three images each, one to judge."""

import io
import shutil
import tarfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from trainer.data import imagenet, store
from trainer.data.augment import Normalise
from trainer.data.folder import (
    FolderEvaluationBatches,
    FolderTrainingBatches,
    find_files,
    read_data_set,
)
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


def write_archives(folder: Path, broken: dict[str, bytes] | None = None) -> Path:
    """Write both archives; `broken` has other content for some classes' own tar files."""
    folder.mkdir()
    with tarfile.open(folder / imagenet.TRAIN_TAR, "w") as outer:
        for number, name in enumerate(CLASSES):
            inner = io.BytesIO()
            with tarfile.open(fileobj=inner, mode="w") as tar:
                for image in range(3):
                    add(tar, f"{name}_{image}.JPEG", jpeg(60 * number))
            add(outer, f"{name}.tar", (broken or {}).get(name, inner.getvalue()))
    with tarfile.open(folder / imagenet.VALIDATION_TAR, "w") as tar:
        for position, number in enumerate(JUDGED, start=1):
            add(tar, f"ILSVRC2012_val_{position:08}.JPEG", jpeg(60 * number))
    (folder / "classes.txt").write_text("".join(f"{CLASSES[number]}\n" for number in JUDGED))
    return folder


def class_tar(source: Path, name: str) -> bytearray:
    with tarfile.open(source / imagenet.TRAIN_TAR) as outer:
        content = outer.extractfile(f"{name}.tar")
        assert content is not None
        return bytearray(content.read())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_archives(tmp_path / "downloads")


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
    image = next((prepared / "train" / CLASSES[0]).iterdir())
    image.rename(image.with_name("the first.JPEG"))
    assert f"{CLASSES[0]}/the first.JPEG" in find_files(prepared, CLASSES, 0)["train"].files


def test_what_is_not_as_it_was_prepared_is_said(prepared: Path) -> None:
    next((prepared / "train" / CLASSES[0]).iterdir()).unlink()
    with pytest.raises(DataError, match="has 11 and 4 images, and its dataset"):
        read_data_set(prepared, 0)


def test_unpacking_goes_on_where_it_was_interrupted(prepared: Path, source: Path) -> None:
    kept = Path("train", CLASSES[0])
    before = {path.name: path.stat().st_mtime_ns for path in (prepared / kept).iterdir()}
    digest = store.read_description(prepared).source_sha256
    (prepared / "dataset.json").unlink()
    scratch = prepared.with_name(f".imagenet.{digest[:12]}")
    prepared.rename(scratch)
    # A class half done under another name, others not begun.
    (scratch / "train" / CLASSES[1]).rename(scratch / "train" / f".{CLASSES[1]}.partial")
    next((scratch / "train" / f".{CLASSES[1]}.partial").iterdir()).unlink()
    shutil.rmtree(scratch / "val" / CLASSES[2])

    assert prepare(source, prepared)

    after = {path.name: path.stat().st_mtime_ns for path in (prepared / kept).iterdir()}
    assert after == before
    assert len(list(prepared.glob("train/*/*.JPEG"))) == 12
    assert len(list(prepared.glob("val/*/*.JPEG"))) == 4
    assert list(prepared.glob("*/.*")) == []
    assert list(prepared.parent.glob(".*")) == []


def test_what_other_archives_left_does_not_mix_in(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "imagenet"
    for left in (out, tmp_path / ".imagenet.0123456789ab"):
        (left / "train" / "n00000000").mkdir(parents=True)
    with pytest.raises(DataError, match=r"has no dataset.json: .* move it away"):
        prepare(source, out)
    out.rename(tmp_path / "mine")
    assert prepare(source, out)
    assert list((tmp_path / "mine/train").iterdir())
    assert len(list((out / "train").iterdir())) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["downloads", "imagenet", "mine"]


def test_other_archives_replace_it_and_the_same_do_not(prepared: Path, tmp_path: Path) -> None:
    assert not prepare(write_archives(tmp_path / "copy"), prepared)
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w") as tar:
        for image in range(3):
            add(tar, f"other_{image}.JPEG", jpeg(1, (1600, 1200)))
    other = write_archives(tmp_path / "other", {CLASSES[1]: inner.getvalue()})
    assert prepare(other, prepared)
    # What it replaced goes last, which takes minutes: an interruption leaves some of it.
    left = prepared.with_name(".imagenet.0123456789ab.old")
    left.mkdir()
    of_another = prepared.with_name(".imagenet.small.abcdefgh")
    of_another.mkdir()
    assert not prepare(other, prepared)
    assert (left.exists(), of_another.exists()) == (False, True)
    assert (prepared / "train" / CLASSES[1] / "other_2.JPEG").exists()
    assert not (prepared / "train" / CLASSES[1] / f"{CLASSES[1]}_0.JPEG").exists()


def test_folders_are_taken_as_they_are(prepared: Path, tmp_path: Path) -> None:
    folders = tmp_path / "folders"
    folders.mkdir()
    for part in ("train", "val"):
        (prepared / part).rename(folders / part)
    out = tmp_path / "out"
    assert not prepare(folders, out)
    assert not out.exists()
    with pytest.raises(DataError, match="12 images in 4 classes, expected 13 in 4"):
        prepare(folders, out, Counts(classes=4, train=13, validation=4))
    (folders / imagenet.TRAIN_TAR).touch()
    with pytest.raises(DataError, match="leave one of them there"):
        prepare(folders, out)
    (folders / imagenet.TRAIN_TAR).unlink()
    broken = next((folders / "val" / CLASSES[2]).iterdir())
    broken.write_bytes(b"no image")
    with pytest.raises(DataError, match=rf"(?s)1 of 8 .*val/{CLASSES[2]}: .*{broken.name}"):
        prepare(folders, out)
    (folders / "val" / CLASSES[2]).rename(folders / "val" / "other")
    with pytest.raises(DataError, match=f"different classes: {CLASSES[2]}, other"):
        prepare(folders, out)


def test_other_counts_are_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds 12 images in 4 classes, expected 13 in 4"):
        prepare(source, tmp_path / "imagenet", Counts(classes=4, train=13, validation=4))
    with pytest.raises(DataError, match=r"img_val.tar holds 4 images, expected 5"):
        prepare(source, tmp_path / "imagenet", Counts(classes=4, train=12, validation=5))
    assert not (tmp_path / "imagenet").exists()


@pytest.mark.parametrize("archive", [imagenet.TRAIN_TAR, imagenet.VALIDATION_TAR])
@pytest.mark.parametrize("how", ["cut", "cut between two files", "damaged"])
def test_a_broken_archive_is_named(source: Path, tmp_path: Path, archive: str, how: str) -> None:
    """Nothing is unpacked of one whose list cannot be read to its end."""
    path = source / archive
    with tarfile.open(path) as tar:
        *_, before, last = tar.getmembers()
    with path.open("r+b") as stream:
        if how == "damaged":
            stream.seek(last.offset)
            stream.write(b"x" * 100)
        else:
            stream.truncate(last.offset + (600 if how == "cut" else 0))
    behind = last if how == "cut" else before
    with pytest.raises(DataError, match=rf"{archive} is damaged or cut short behind {behind.name}"):
        prepare(source, tmp_path / "imagenet")
    assert [path.name for path in tmp_path.iterdir()] == ["downloads"]


def test_damaged_classes_are_named_and_alone_unpacked_anew(source: Path, tmp_path: Path) -> None:
    """Their own tar files are damaged, cut, or hold a broken image; the archive's list is whole."""
    good = {name: class_tar(source, name) for name in CLASSES[:3]}
    second = 512 + 1024  # where the header of the second image begins: a JPEG takes two blocks
    for name, place, content in (
        (CLASSES[0], second, b"x" * 100),
        (CLASSES[1], second, bytes(512)),
        (CLASSES[2], 512, b"x" * 300),
    ):
        damaged = good[name].copy()
        damaged[place : place + len(content)] = content
        good[name] = damaged
    broken = write_archives(tmp_path / "broken", {name: bytes(tar) for name, tar in good.items()})
    out = tmp_path / "imagenet"
    for _ in range(2):
        with pytest.raises(DataError) as raised:
            prepare(broken, out)
    told = str(raised.value)
    assert told.startswith("3 of 3 folders are damaged:")
    for name in CLASSES[:2]:
        assert f"train/{name}: {broken}/{imagenet.TRAIN_TAR}/{name}.tar is damaged" in told
    assert f"{CLASSES[2]}_0.JPEG" in told
    assert not out.exists()
    (scratch,) = tmp_path.glob(".imagenet.*")
    kept = next((scratch / "train" / CLASSES[3]).iterdir()).stat().st_mtime_ns
    assert prepare(source, out)
    assert next((out / "train" / CLASSES[3]).iterdir()).stat().st_mtime_ns == kept


def test_a_class_that_ends_early_in_zeros_is_not_kept(source: Path, tmp_path: Path) -> None:
    tar = class_tar(source, CLASSES[0])
    tar[1536:] = bytes(len(tar) - 1536)
    broken = write_archives(tmp_path / "broken", {CLASSES[0]: bytes(tar)})
    with pytest.raises(DataError, match="train/ holds 10 images in 4 classes, expected 12"):
        prepare(broken, tmp_path / "imagenet")
    assert prepare(source, tmp_path / "imagenet")


def test_room_is_looked_at_before_anything_is_unpacked(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=40_000))
    with pytest.raises(DataError, match=r"has 0.0 GB free, and the images take 0.0 GB"):
        prepare(source, tmp_path / "imagenet")
    assert [path.name for path in tmp_path.iterdir()] == ["downloads"]


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
    files = find_files(prepared, CLASSES, 0)["train"]
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
    files = find_files(prepared, CLASSES, 0)["test"]
    normalise = Normalise((0.0,) * 3, (1 / 255,) * 3)
    batches = FolderEvaluationBatches(files, 32, 2, normalise, torch.device("cpu"))
    ((images, labels),) = batches
    assert images.shape == (4, 3, 32, 32)
    assert labels.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("content", [None, b"P6\n2 2\nx\n", b"P6 100000 100000 255\n"])
def test_damaged_image_is_named(prepared: Path, content: bytes | None) -> None:
    broken = next((prepared / "train" / CLASSES[2]).iterdir())
    broken.write_bytes(content or broken.read_bytes()[:200])
    with pytest.raises(DataError, match=broken.name):
        list(training(prepared, 0, 1).epoch(1))
