"""A folder of images of a user's own."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from trainer.config import TrainConfig
from trainer.data import folder
from trainer.data.decoding import check_folder, in_processes
from trainer.data.folder import FileSet, is_folder, read_data_set
from trainer.data.loading import Data, check_same, load_data
from trainer.engines.independent import IndependentEngine
from trainer.errors import ConfigError, DataError, DatasetMissingError


def write(root: Path, **classes: int) -> Path:
    """So many images for each class, and a file that is none."""
    for level, (name, count) in enumerate(classes.items()):
        (root / name).mkdir(parents=True)
        (root / name / "notes.txt").touch()
        for number in range(count):
            Image.new("L", (40, 30), 60 * level).save(root / name / f"{number}.png")
    return root


def test_train_and_val_with_a_folder_a_class(tmp_path: Path) -> None:
    write(tmp_path / "train", ann=3, bob=4)
    write(tmp_path / "val", ann=1, bob=2)
    assert is_folder(tmp_path)
    description, files = read_data_set(tmp_path, seed=1)
    assert (description.name, description.classes) == (tmp_path.name, ("ann", "bob"))
    assert (description.train_images, description.test_images) == (7, 3)
    assert description.channel_means == folder.MEANS
    assert files["test"].files == ("ann/0.png", "bob/0.png", "bob/1.png")
    assert files["test"].labels.tolist() == [0, 1, 1]


def test_a_validation_split_of_its_own_is_used(tmp_path: Path, config: dict[str, Any]) -> None:
    for part, images in (("train", 30), ("val", 4), ("test", 7)):
        write(tmp_path / "faces" / part, ann=images, bob=images)
    asked = {**config, "data_dir": str(tmp_path), "dataset": "faces", "train_images": 40}
    asked |= {"engine": "independent", "world_size": 1, "hosts": ["a"], "image_size": 32}

    def loaded() -> Data:
        return load_data(TrainConfig(**asked), IndependentEngine(), torch.device("cpu"))

    data = loaded()
    assert (data.train_images, data.validation_images) == (40, 8)
    assert (data.description.train_images, data.description.test_images) == (68, 14)
    assert sum(len(labels) for _, labels in data.validation) == 8
    assert sum(len(labels) for _, labels in data.test) == 14
    # Images of no known class, as ImageNet has them.
    shutil.rmtree(tmp_path / "faces/test")
    (tmp_path / "faces/test").mkdir()
    (tmp_path / "faces/test/1.png").touch()
    data = loaded()
    assert (data.description.train_images, data.description.test_images) == (60, 8)
    assert data.validation_images == 4
    write(tmp_path / "faces/test", ann=1, eve=1)
    with pytest.raises(DataError, match=r"train/ and test/ have different classes: bob, eve"):
        loaded()


def test_one_folder_is_parted_by_the_seed(tmp_path: Path) -> None:
    write(tmp_path, ann=20, bob=5)
    description, files = read_data_set(tmp_path, seed=1)
    assert (description.train_images, description.test_images) == (22, 3)
    assert not set(files["train"].files) & set(files["test"].files)
    # Of each class a tenth, and one at the least.
    assert sorted(name.split("/")[0] for name in files["test"].files) == ["ann", "ann", "bob"]
    assert read_data_set(tmp_path, seed=1)[1]["test"].files == files["test"].files
    assert read_data_set(tmp_path, seed=2)[1]["test"].files != files["test"].files


def test_what_is_no_data_set_of_images_is_said(tmp_path: Path) -> None:
    with pytest.raises(DatasetMissingError):
        is_folder(tmp_path)
    with pytest.raises(DatasetMissingError):
        is_folder(tmp_path / "nowhere")
    (tmp_path / "a.bin").touch()
    assert is_folder(tmp_path)
    with pytest.raises(DataError, match=r"no data set of images: .* the folders of the classes"):
        read_data_set(tmp_path, seed=1)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no valid file for the classes empty"):
        read_data_set(tmp_path, seed=1)
    write(tmp_path / "one", ann=1)
    with pytest.raises(ConfigError, match="class 0 has 1 image"):
        read_data_set(tmp_path / "one", seed=1)
    write(tmp_path / "half/train", ann=2)
    with pytest.raises(DataError, match="half/val"):
        read_data_set(tmp_path / "half", seed=1)


def test_nodes_with_other_images_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks deal the images out to themselves: with other ones some would be seen twice."""
    engine = IndependentEngine()
    files = {
        split: FileSet(Path("/"), ("a/1", "b/1"), torch.tensor([0, 1]))
        for split in ("train", "test")
    }
    check_same(files, engine)

    def gather(mine: list[Any]) -> list[Any]:
        return [mine, mine, [1, [3, 2], "node3"]]

    monkeypatch.setattr(engine, "gather", gather)
    with pytest.raises(DataError, match=r"; node3: 3 and 2\): put the data set there again"):
        check_same(files, engine)


def test_images_that_cannot_be_decoded_are_named_before_they_are_sent(tmp_path: Path) -> None:
    told: list[str] = []
    write(tmp_path / "train", ann=7, bob=2)
    write(tmp_path / "val", ann=1, bob=1)
    check_folder(tmp_path, told.append)
    assert told[-1] == "all 11 images can be decoded"
    for number in range(1, 7):
        (tmp_path / f"train/ann/{number}.png").write_bytes(b"\x89PNG")
    whole = tmp_path / "val/bob/0.png"
    whole.write_bytes(whole.read_bytes()[:-30])
    (tmp_path / "val/bob/notes.txt").write_text("no image")
    scan = tmp_path / "val/ann/scan.tiff"
    Image.new("L", (4, 4)).save(scan)
    # The place of its strips is no number but text.
    scan.write_bytes(scan.read_bytes().replace(b"\x11\x01\x04\x00", b"\x11\x01\x02\x00"))
    with pytest.raises(DataError) as caught:
        check_folder(tmp_path, told.append)
    assert str(caught.value).splitlines() == [
        f"{tmp_path}: in 3 of 4 folders images are damaged:",
        "train/ann: cannot decode 1.png, 2.png, 3.png, 4.png, 5.png and 1 more",
        "val/ann: cannot decode scan.tiff",
        "val/bob: cannot decode 0.png",
        "replace them or move them away, and give the same command again; where a program of your "
        "own reads them, dataset_images_decoded: false in the inventory sends them as they are",
    ]
    # What has no folder for each class is for a program of the user's own.
    check_folder(tmp_path / "train/ann", told.append)
    assert told[-1].startswith("no images are looked at: ")


def test_a_decoding_process_that_is_killed_is_no_traceback() -> None:
    with pytest.raises(DataError, match="was killed, as the kernel does where memory is short"):
        in_processes(os._exit, {"ann": 9, "bob": 9}, print)


@pytest.mark.parametrize("form", ["png", "tiff", "ppm"])
def test_grey_of_sixteen_bits_keeps_its_shades(form: str, tmp_path: Path) -> None:
    values = np.arange(0, 65536, 1024, dtype=np.uint16).reshape(8, 8)
    (tmp_path / "scan").write_bytes(b"P5\n8 8\n65535\n" + values.astype(">u2").tobytes())
    if form != "ppm":
        Image.fromarray(values).save(tmp_path / "scan", form)
    image = folder._open(tmp_path / "scan")
    assert image.mode == "RGB"
    assert np.array_equal(np.asarray(image)[:, :, 1], values // 256)
