"""CIFAR-100, Fashion-MNIST and the synthetic set, from small sources of the real formats."""

import dataclasses
import gzip
import hashlib
import io
import pickle
import struct
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from trainer.data import cifar100, fashion_mnist, preparation, store, synthetic
from trainer.data.augment import Normalise
from trainer.data.datasets import DATASETS, PreparationRequest, prepare_dataset
from trainer.errors import ConfigError, DataError

COUNTS = {"train": 200, "test": 100}


def quiet(line: str) -> None:
    """Take a line of progress and print nothing."""


def pixels(count: int, length: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 256, (count, length), np.uint8)


def test_cifar100_keeps_every_pixel_and_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "cifar-100-python.tar.gz"
    with tarfile.open(source, "w:gz") as tar:
        files = {"meta": {"fine_label_names": list(cifar100.CLASSES)}} | {
            name: {"data": pixels(count, 3072), "fine_labels": [n % 100 for n in range(count)]}
            for name, count in COUNTS.items()
        }
        for name, content in files.items():
            member = tarfile.TarInfo(f"cifar-100-python/{name}")
            data = pickle.dumps(content, protocol=2)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    with pytest.raises(DataError, match="damaged: its md5 is"):
        cifar100.prepare(source, tmp_path / "cifar100", quiet)
    digest = hashlib.md5(source.read_bytes()).hexdigest()
    monkeypatch.setattr(preparation, "published_checksum", lambda *_: ("md5", digest))
    small = dataclasses.replace(cifar100.PUBLISHED, counts=COUNTS)
    monkeypatch.setattr(cifar100, "PUBLISHED", small)

    assert cifar100.prepare(source, tmp_path / "cifar100", quiet)

    test = store.read_split(tmp_path / "cifar100", "test")
    assert np.array_equal(test.images.reshape(100, 3072), pixels(100, 3072))
    assert test.labels.tolist() == list(range(100))


def test_fashion_mnist_gets_a_border(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"train": 40, "test": 20}
    root = tmp_path / "package"
    folder = root / "usr/share/datasets/fashion-mnist"
    folder.mkdir(parents=True)
    sums = {}
    for name, count in counts.items():
        prefix = fashion_mnist.PREFIXES[name]
        files = {
            "images-idx3": struct.pack(">4I", 0x803, count, 28, 28) + pixels(count, 784).tobytes(),
            "labels-idx1": struct.pack(">2I", 0x801, count) + bytes(n % 10 for n in range(count)),
        }
        for kind, content in files.items():
            (folder / f"{prefix}-{kind}-ubyte.gz").write_bytes(gzip.compress(content))
            sums[f"{prefix}-{kind}"] = hashlib.sha256(content).hexdigest()
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN/control").write_text(
        "Package: dataset-fashion-mnist\nVersion: 1\nArchitecture: all\n"
        "Maintainer: nobody <nobody@localhost>\nDescription: clothes\n"
    )
    source = tmp_path / "package.deb"
    subprocess.run(["dpkg-deb", "--build", root, source], check=True, capture_output=True)
    with pytest.raises(DataError, match="train-images-idx3 is damaged: its sha256"):
        fashion_mnist.prepare(source, tmp_path / "fashion_mnist", quiet)
    monkeypatch.setattr(fashion_mnist, "CONTENT_SHA256", sums)
    small = dataclasses.replace(fashion_mnist.PUBLISHED, counts=counts, first_labels=None)
    monkeypatch.setattr(fashion_mnist, "PUBLISHED", small)

    assert fashion_mnist.prepare(source, tmp_path / "fashion_mnist", quiet)

    test = store.read_split(tmp_path / "fashion_mnist", "test")
    assert test.images.shape == (20, 1, 32, 32)
    assert np.array_equal(test.images[:, 0, 2:30, 2:30].reshape(20, 784), pixels(20, 784))
    assert test.images[:, :, :2].max() == test.images[:, :, :, 30:].max() == 0
    assert test.labels.tolist() == [n % 10 for n in range(20)]


def test_grey_images_become_three_equal_channels() -> None:
    images = torch.arange(4, dtype=torch.uint8).view(1, 1, 2, 2)
    result = Normalise((0.0,), (1 / 255,))(images)
    assert result.shape == (1, 3, 2, 2)
    assert torch.equal(result[0, 2], images[0, 0].float())


def test_synthetic_set_is_always_the_same_and_can_be_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthetic, "COUNTS", {"train": 500, "test": 100})
    assert synthetic.prepare(tmp_path / "one", quiet)
    assert synthetic.prepare(tmp_path / "two", quiet)
    assert not synthetic.prepare(tmp_path / "two", quiet)
    one, two = (store.read_split(tmp_path / name, "train") for name in ("one", "two"))
    assert np.array_equal(one.images, two.images)
    assert store.read_description(tmp_path / "one").augmentation == "none"
    # The nearest class mean tells the class of an unseen image.
    means = np.stack([one.images[one.labels == n].mean(axis=0) for n in range(10)])
    test = store.read_split(tmp_path / "one", "test")
    distances = ((test.images[:, None] - means[None]) ** 2).sum(axis=(2, 3, 4))
    assert (distances.argmin(axis=1) == test.labels).mean() > 0.9


def test_inventory_names_the_data_sets_there_are() -> None:
    variables = yaml.safe_load(Path("/group_vars/all/datasets.yml").read_text())
    assert {
        name: entry["train_images"] for name, entry in variables["training_datasets"].items()
    } == {name: dataset.train_images for name, dataset in DATASETS.items()}
    assert set(variables["dataset_sources"]) == set(DATASETS)


def test_unknown_data_set_is_refused_with_the_list(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no data set 'cifar1000'; there are: cifar10, cifar100"):
        prepare_dataset("cifar1000", PreparationRequest(None, tmp_path))
    with pytest.raises(ConfigError, match="needs --source"):
        prepare_dataset("cifar10", PreparationRequest(None, tmp_path))
