"""What a model makes of a test set, and of files in a folder."""

import base64
import csv
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from trainer.checkpoint import Checkpoint
from trainer.config import TrainConfig
from trainer.data import store
from trainer.data.augment import Normalise
from trainer.engines.independent import IndependentEngine
from trainer.errors import ConfigError
from trainer.models import build_model
from trainer.predict import evaluate_together, predict

CLASSES = tuple("abcdefghij")
MEANS, DEVIATIONS = (0.5, 0.4, 0.3), (0.25, 0.2, 0.3)

Save = Callable[..., Path]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two prepared data sets with 30 test images of noise each; one has other classes."""
    values = np.random.default_rng(1)
    images = values.integers(0, 256, (30, 3, 32, 32), dtype=np.uint8)
    labels = values.integers(0, 10, 30, dtype=np.uint8)
    splits = dict.fromkeys(("train", "test"), store.Split(images, labels))
    for name, classes in (("cifar10", CLASSES), ("other", CLASSES[::-1])):
        given: Any = (name, classes, 30, 30, MEANS, DEVIATIONS, "noise", "")
        store.write(tmp_path / "data" / name, store.Description(*given), splits)
    return tmp_path / "data"


def looked(out: Path) -> tuple[dict[str, Any], list[list[str]]]:
    with (out / "predictions.csv").open(newline="") as stream:
        return json.loads((out / "evaluation.json").read_text()), list(csv.reader(stream))


def test_the_test_set_is_looked_at(save: Save, data: Path, tmp_path: Path) -> None:
    path = save()
    predict(path, data, None, None, tmp_path)
    result, (head, *rows) = looked(tmp_path)
    model = build_model("cnn_a", 10, 32).eval()
    model.load_state_dict(Checkpoint.load(path).model)
    test = store.read_split(data / "cifar10", "test")
    images, labels = torch.from_numpy(np.array(test.images)), torch.from_numpy(test.labels).long()
    with torch.inference_mode():
        logits = model(Normalise(MEANS, DEVIATIONS)(images))
    chances, answers = logits.softmax(1).topk(5)
    assert head[:4] == ["image", "truth", "class_1", "probability_1"]
    assert [row[:3] for row in rows] == [
        [str(number), CLASSES[label], CLASSES[answer]]
        for number, (label, answer) in enumerate(zip(labels, answers[:, 0], strict=True))
    ]
    assert [float(row[11]) for row in rows] == pytest.approx(chances[:, 4].tolist(), abs=1e-6)
    assert (result["model"], result["epoch"], result["images"]) == ("cnn_a", 2, 30)
    assert result["accuracy"] == (answers[:, 0] == labels).double().mean().item()
    assert result["top5"] == (answers == labels[:, None]).any(1).double().mean().item()
    expected = torch.nn.functional.cross_entropy(logits, labels).item()
    assert result["loss"] == pytest.approx(expected, rel=1e-5)
    assert sum(map(sum, result["confusion"])) == 30
    wrong = chances[:, 0][answers[:, 0] != labels].sort(descending=True).values
    assert [entry["answers"][0][1] for entry in result["worst"]] == pytest.approx(
        wrong[:24].tolist(), abs=1e-6
    )
    # The picture is that of the data set.
    worst = result["worst"][0]
    shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(worst["png"]))))
    assert np.array_equal(shown.transpose(2, 0, 1), test.images[int(worst["image"])])


@pytest.mark.parametrize("ranks", [2, 4, 31])
def test_ranks_that_share_the_images_tell_what_one_tells(
    ranks: int,
    save: Save,
    data: Path,
    tmp_path: Path,
    config: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 30 images 4 ranks have 8 or 7, and of 31 ranks one has none: each counts once."""
    path = save()
    predict(path, data, None, None, tmp_path)
    asked = TrainConfig(
        **config | {"data_dir": str(data), "run_dir": str(tmp_path), "weights": str(path)}
    )
    engine = IndependentEngine()
    parts: list[Any] = []

    def gather(part: Any) -> list[Any]:
        parts.append(part)
        return parts

    monkeypatch.setattr(engine, "gather", gather)
    monkeypatch.setattr(engine, "world_size", ranks)
    for rank in range(ranks - 1, -1, -1):
        monkeypatch.setattr(engine, "rank", rank)
        scale, told = evaluate_together(asked, engine, torch.device("cpu"))
    assert sorted({len(part.seen) for part in parts}) in ([15], [7, 8], [0, 1])
    one, rows = looked(tmp_path)
    several, others = looked(tmp_path / "outputs")
    exact = ("images", "labelled", "accuracy", "top5", "confusion")
    assert [several[name] for name in exact] == [one[name] for name in exact]
    assert several["loss"] == pytest.approx(one["loss"], rel=1e-6)
    assert [row[:3] for row in others] == [row[:3] for row in rows]
    assert [each["image"] for each in several["worst"]] == [each["image"] for each in one["worst"]]
    assert (told["test_accuracy"], scale.test_images) == (one["accuracy"], 30)


def test_files_of_a_folder(save: Save, data: Path, tmp_path: Path) -> None:
    """The same images as files give the same answers; a folder may say the class."""
    test = store.read_split(data / "cifar10", "test")
    for number, folder in enumerate(["a", "b", "unsorted", "unsorted"]):
        (tmp_path / "files" / folder).mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(test.images[number].transpose(1, 2, 0))
        # One has a name that is no UTF-8.
        name = os.fsdecode(b"3\xe9.PNG") if number == 3 else f"{number}.PNG"
        image.save(tmp_path / "files" / folder / name)
    (tmp_path / "files" / "notes.txt").write_text("no image")
    path = save(averages=True)
    predict(path, data, None, tmp_path / "files", tmp_path)
    result, rows = looked(tmp_path)
    assert [row[:2] for row in rows[1:]] == [
        ["a/0.PNG", "a"],
        ["b/1.PNG", "b"],
        ["unsorted/2.PNG", ""],
        [r"unsorted/3\xe9.PNG", ""],
    ]
    assert (result["images"], result["labelled"]) == (4, 2)
    predict(path, data, None, None, tmp_path)
    for row, expected in zip(rows[1:], looked(tmp_path)[1][1:5], strict=True):
        assert row[2::2] == expected[2::2]
        assert [*map(float, row[3::2])] == pytest.approx([*map(float, expected[3::2])], abs=2e-6)


def test_what_cannot_be_looked_at_is_said(save: Save, data: Path, tmp_path: Path) -> None:
    path = save()
    with pytest.raises(ConfigError, match="other has other classes than cifar10"):
        predict(path, data, "other", None, tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="no image among the files"):
        predict(path, data, None, tmp_path / "empty", tmp_path)
