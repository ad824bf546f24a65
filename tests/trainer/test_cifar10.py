"""CIFAR-10 from either archive. Both are made here from the real images, in the real formats."""

import hashlib
import io
import json
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trainer.checksum import file_checksum
from trainer.data import cifar10, preparation, store
from trainer.data.preparation import published_checksum
from trainer.data.store import Split
from trainer.errors import DataError

pytestmark = pytest.mark.data

Splits = dict[str, Split]


def add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def batches(splits: Splits) -> dict[str, Split]:
    """The five training batches and the test batch, by the name of their file."""
    train = {
        f"data_batch_{number + 1}": Split(
            splits["train"].images[number * 10_000 : (number + 1) * 10_000],
            splits["train"].labels[number * 10_000 : (number + 1) * 10_000],
        )
        for number in range(5)
    }
    return {**train, "test_batch": splits["test"]}


def write_canonical(path: Path, splits: Splits) -> None:
    with tarfile.open(path, "w") as tar:
        for name, batch in batches(splits).items():
            rows = np.ascontiguousarray(batch.images).reshape(-1, 3072)
            content = {"data": rows, "labels": batch.labels.tolist()}
            add(tar, f"cifar-10-batches-py/{name}", pickle.dumps(content, protocol=2))


def write_npm(path: Path, splits: Splits) -> None:
    with tarfile.open(path, "w") as tar:
        for name, batch in batches(splits).items():
            rows = np.ascontiguousarray(batch.images.transpose(0, 2, 3, 1)).reshape(-1, 1024, 3)
            png = io.BytesIO()
            Image.fromarray(rows).save(png, "png", compress_level=1)
            add(tar, f"package/{name}.png", png.getvalue())
        for name in store.SPLITS:
            labels = json.dumps(splits[name].labels.tolist())
            add(tar, f"package/{name}_lables.json", labels.encode())


def accept(monkeypatch: pytest.MonkeyPatch, source: Path) -> None:
    """Make this archive's checksum the expected one, in place of the published."""
    checksum = "sha256", file_checksum(source, "sha256")
    monkeypatch.setattr(preparation, "published_checksum", lambda *_: checksum)


@pytest.fixture
def canonical(tmp_path: Path, real_splits: Splits) -> Path:
    path = tmp_path / "cifar-10-python.tar"
    write_canonical(path, real_splits)
    return path


def test_prepared_data_is_cifar10(real_splits: Splits) -> None:
    cifar10.PUBLISHED.check(real_splits)


@pytest.mark.parametrize("write", [write_canonical, write_npm])
def test_prepare_keeps_every_pixel_and_label(
    write: Callable[[Path, Splits], None],
    tmp_path: Path,
    real_splits: Splits,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, out = tmp_path / "archive.tar", tmp_path / "cifar10"
    write(source, real_splits)
    accept(monkeypatch, source)
    lines: list[str] = []

    assert cifar10.prepare(source, out, lines.append)

    for name in store.SPLITS:
        prepared = store.read_split(out, name)
        assert np.array_equal(prepared.images, real_splits[name].images)
        assert np.array_equal(prepared.labels, real_splits[name].labels)
    description = store.read_description(out)
    assert description.channel_means == pytest.approx(cifar10.PUBLISHED.means, abs=1e-4)
    assert description.channel_deviations == pytest.approx(cifar10.PUBLISHED.deviations, abs=1e-4)
    assert description.source_sha256 == hashlib.sha256(source.read_bytes()).hexdigest()
    assert [line for line in lines if line.startswith("decoding")]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_prepare_again_changes_nothing(
    canonical: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept(monkeypatch, canonical)
    out = tmp_path / "cifar10"
    cifar10.prepare(canonical, out, lambda line: None)
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}

    assert not cifar10.prepare(canonical, out, lambda line: None)
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == before


def test_archive_with_another_checksum_is_refused(canonical: Path, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=f"md5 is .*, expected {published_checksum('cifar10', 'canonical')[1]}"
    ):
        cifar10.prepare(canonical, tmp_path / "cifar10", lambda line: None)
    assert not (tmp_path / "cifar10").exists()


def test_truncated_archive_is_refused(
    canonical: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with canonical.open("r+b") as stream:
        stream.truncate(50_000_000)
    accept(monkeypatch, canonical)
    with pytest.raises(DataError):
        cifar10.prepare(canonical, tmp_path / "cifar10", lambda line: None)
    assert not (tmp_path / "cifar10").exists()


def test_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "cifar-10-python.tar.gz"
    source.write_text("not an archive")
    with pytest.raises(DataError, match="cannot read"):
        cifar10.prepare(source, tmp_path / "cifar10", lambda line: None)
    with pytest.raises(DataError, match="no file"):
        cifar10.prepare(tmp_path / "missing", tmp_path / "cifar10", lambda line: None)


def test_check_sees_wrong_labels_and_wrong_pixels(real_splits: Splits) -> None:
    train = real_splits["train"]

    shifted = {**real_splits, "train": Split(train.images, np.roll(train.labels, 1))}
    with pytest.raises(DataError, match="first labels"):
        cifar10.PUBLISHED.check(shifted)

    labels = train.labels.copy()
    labels[20] = (labels[20] + 1) % 10
    with pytest.raises(DataError, match="images per class"):
        cifar10.PUBLISHED.check({**real_splits, "train": Split(train.images, labels)})

    swapped = {**real_splits, "train": Split(train.images[:, ::-1], train.labels)}
    with pytest.raises(DataError, match="channel means"):
        cifar10.PUBLISHED.check(swapped)

    short = {**real_splits, "test": Split(train.images[:9999], train.labels[:9999])}
    with pytest.raises(DataError, match="test: images of shape"):
        cifar10.PUBLISHED.check(short)
