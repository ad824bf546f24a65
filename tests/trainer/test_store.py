import json
import os
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer.data import store
from trainer.data.memory import ImageSet
from trainer.data.store import Description, Split
from trainer.errors import ConfigError, DataError


def splits(train: int = 20, test: int = 6) -> dict[str, Split]:
    random = np.random.default_rng(1)
    return {
        name: Split(
            random.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8),
            np.arange(count, dtype=np.uint8) % 2,
        )
        for name, count in (("train", train), ("test", test))
    }


def description(**changes: Any) -> Description:
    fields: dict[str, Any] = {
        "name": "coins",
        "classes": ("heads", "tails"),
        "train_images": 20,
        "test_images": 6,
        "channel_means": (0.5, 0.5, 0.5),
        "channel_deviations": (0.25, 0.25, 0.25),
        "source": "purse.tar",
        "source_sha256": "0" * 64,
    }
    return Description(**{**fields, **changes})


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "coins"
    store.write(path, description(), splits())
    return path


def test_round_trip(directory: Path) -> None:
    read = store.read_description(directory)
    assert replace(read, sha256={}) == description()
    assert len(read.sha256) == 4
    for name, split in splits().items():
        found = store.read_split(directory, name)
        assert np.array_equal(found.images, split.images)
        assert np.array_equal(found.labels, split.labels)
    assert directory.stat().st_mode & 0o777 == 0o755


def test_writing_replaces_what_was_there(directory: Path) -> None:
    store.write(directory, description(name="dice"), splits())
    assert store.read_description(directory).name == "dice"
    assert [path.name for path in directory.parent.iterdir()] == ["coins"]


def test_failed_writing_leaves_the_old_one(directory: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, limits[1]))  # the images take 61 kB
    try:
        with pytest.raises(OSError, match=r"written|too large"):
            store.write(directory, description(name="dice"), splits())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert store.read_description(directory).name == "coins"
    assert [path.name for path in directory.parent.iterdir()] == ["coins"]


def test_channel_statistics_are_numpys() -> None:
    images = splits()["train"].images
    means, deviations = store.channel_statistics(images)
    assert means == pytest.approx((images / 255).mean(axis=(0, 2, 3)))
    assert deviations == pytest.approx((images / 255).std(axis=(0, 2, 3)))


def test_missing_data_set_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no prepared data set"):
        ImageSet.load(tmp_path / "nothing", "train")


@pytest.mark.parametrize("text", ["{", "[]", '{"name": "coins"}'])
def test_damaged_description_is_refused(directory: Path, text: str) -> None:
    (directory / "dataset.json").write_text(text)
    with pytest.raises(DataError, match="damaged"):
        store.read_description(directory)


def test_truncated_images_are_refused(directory: Path) -> None:
    with (directory / "train_images.npy").open("r+b") as stream:
        stream.truncate(10_000)
    with pytest.raises(DataError, match="train"):
        ImageSet.load(directory, "train")


def test_label_out_of_range_is_refused(directory: Path) -> None:
    wrong = splits()
    wrong["test"].labels[3] = 2
    store.write(directory, description(), wrong)
    with pytest.raises(DataError, match="label 2 of test image 3 is out of range"):
        ImageSet.load(directory, "test")


@pytest.mark.parametrize("file", ["train_images.npy", "train_labels.npy"])
def test_changed_byte_is_refused(directory: Path, file: str) -> None:
    with (directory / file).open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        last = stream.read(1)[0]
        stream.seek(-1, os.SEEK_END)
        stream.write(bytes([last ^ 1]))
    with pytest.raises(DataError, match=f"{file} is damaged: its sha256 is .*, expected"):
        ImageSet.load(directory, "train")


def test_counts_must_agree_with_the_description(directory: Path) -> None:
    path = directory / "dataset.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "train_images": 21}))
    with pytest.raises(DataError, match="expected uint8 of 21"):
        ImageSet.load(directory, "train")


def test_subset_holds_the_chosen_images(directory: Path) -> None:
    whole = ImageSet.load(directory, "train")
    subset = ImageSet.load(directory, "train", count=10, seed=3)
    assert len(subset) == 10
    assert subset.labels.bincount().tolist() == [5, 5]
    matches = (subset.images[:, None] == whole.images[None]).flatten(2).all(dim=2)
    assert matches.sum(dim=1).tolist() == [1] * 10
    assert (whole.labels[matches.int().argmax(dim=1)] == subset.labels).all()


def test_subset_larger_than_the_data_set_is_a_bad_request(directory: Path) -> None:
    with pytest.raises(ConfigError, match="train_images 21"):
        ImageSet.load(directory, "train", count=21)


def test_shards_together_are_the_set(directory: Path) -> None:
    whole = ImageSet.load(directory, "test")
    shards = [whole.shard(rank, 4) for rank in range(4)]
    assert [len(shard) for shard in shards] == [2, 2, 1, 1]
    seen = sorted(tuple(image.flatten().tolist()) for shard in shards for image in shard.images)
    assert seen == sorted(tuple(image.flatten().tolist()) for image in whole.images)
