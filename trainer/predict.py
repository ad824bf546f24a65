"""Classifies images with a trained model: a test set, or the files of a folder."""

import base64
import csv
import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional
from torchvision.datasets.folder import IMG_EXTENSIONS

from trainer.atomic import write_json
from trainer.checkpoint import Checkpoint
from trainer.data import store
from trainer.data.augment import Normalise
from trainer.data.folder import (
    EVALUATION_MARGIN,
    FileSet,
    FolderEvaluationBatches,
    read_data_set,
)
from trainer.data.memory import EvaluationBatches, ImageSet
from trainer.errors import ConfigError
from trainer.evaluation import MOST_CONFUSED, TOP
from trainer.export import evaluated_weights
from trainer.models import build_model

# The class of an image that nobody has said.
UNKNOWN = -1
MOST_SHOWN = 24


class Images(NamedTuple):
    """What is looked at: a name for each image, and batches of images and classes in that order."""

    names: tuple[str, ...]
    batches: Iterable[tuple[Tensor, Tensor]]


def predict(path: Path, data: Path, dataset: str | None, source: Path | None, out: Path) -> None:
    """Classify images with the model of a checkpoint, and write the results.

    `predictions.csv` has a line for each image: its class where that is known, and up to five
    classes with their probabilities, the likeliest first. `evaluation.json` has what they come to,
    over the images whose class is known, and the worst mistakes; the least certain answers where no
    class is known.

    Args:
        dataset: whose test set is looked at; None for that of the training.
        source: a folder with image files, to look at these in its place. One in a folder with the
            name of a class is of that class.

    Raises:
        CheckpointError: the checkpoint is damaged.
        ConfigError: the data set has other classes, or the folder no images.
        DataError: a data set is not here or damaged, or a file is no image.
    """
    checkpoint = Checkpoint.load(path)
    known = checkpoint.data.get("description")
    # Older checkpoints do not say it.
    trained_on = (
        store.Description(**known)
        if known
        else store.read_description(data / checkpoint.config["dataset"])
    )
    classes, size = trained_on.classes, checkpoint.data.get("image_size")
    if size is None:
        raise ConfigError(f"{path.name} is of an older version that did not record the image size")
    network = build_model(checkpoint.config["model"], len(classes), size)
    network.load_state_dict(evaluated_weights(checkpoint))
    network.eval()
    normalise = Normalise(trained_on.channel_means, trained_on.channel_deviations)
    if source is None:
        directory = data / (dataset or checkpoint.config["dataset"])
        images = _test_set(directory, trained_on, size, normalise, checkpoint.sampler["seed"])
    else:
        margin = EVALUATION_MARGIN if trained_on.layout == "folder" else 1.0
        images = _files(source, classes, size, margin, normalise)
    result, rows = _look(network, images, classes, normalise)
    with (out / "predictions.csv").open("w", encoding="utf-8", newline="") as stream:
        places = range(1, 1 + min(TOP, len(classes)))
        heads = [head for place in places for head in (f"class_{place}", f"probability_{place}")]
        csv.writer(stream).writerows([["image", "truth", *heads], *rows])
    about = {"model": checkpoint.config["model"], "epoch": checkpoint.epoch}
    write_json(out / "evaluation.json", {**about, "classes": list(classes), **result})


def _test_set(
    directory: Path, trained_on: store.Description, size: int, normalise: Normalise, seed: int
) -> Images:
    description, splits = read_data_set(directory, seed)
    if description.classes != trained_on.classes:
        raise ConfigError(
            f"{description.name} has other classes than {trained_on.name}, which the model tells "
            "apart"
        )
    if splits:
        files = splits["test"]
        threads = torch.get_num_threads()
        batches = FolderEvaluationBatches(files, size, threads, normalise, torch.device("cpu"))
        return Images(files.files, batches)
    arrays = ImageSet.load(directory, "test")
    if arrays.images.shape[-1] != size:
        raise ConfigError(
            f"{description.name} has images of {arrays.images.shape[-1]} pixels, and the model was "
            f"trained with {size}"
        )
    return Images(tuple(map(str, range(len(arrays)))), EvaluationBatches(arrays, normalise))


def _files(
    source: Path, classes: tuple[str, ...], size: int, margin: float, normalise: Normalise
) -> Images:
    files = [file for file in sorted(source.rglob("*")) if file.suffix.lower() in IMG_EXTENSIONS]
    if not files:
        raise ConfigError(f"no image among the files: {', '.join(IMG_EXTENSIONS)}")
    numbers = {name: number for number, name in enumerate(classes)}
    labels = torch.tensor([numbers.get(file.parent.name, UNKNOWN) for file in files])
    names = tuple(str(file.relative_to(source)) for file in files)
    batches = FolderEvaluationBatches(
        FileSet(source, names, labels),
        size,
        torch.get_num_threads(),
        normalise,
        torch.device("cpu"),
        margin,
    )
    return Images(names, batches)


def _look(
    network: torch.nn.Module, images: Images, classes: tuple[str, ...], normalise: Normalise
) -> tuple[dict[str, Any], list[list[Any]]]:
    """Returns what it comes to, and the lines of `predictions.csv`."""
    count = len(classes)
    loss, right, near, known = 0.0, 0, 0, 0
    confusion = torch.zeros(count * count, dtype=torch.int64)
    names, rows = iter(images.names), []
    shown: list[tuple[float, dict[str, Any], Tensor]] = []
    with torch.inference_mode():
        for batch, labels in images.batches:
            logits = network(batch).float()
            chances, answers = logits.softmax(dim=1).topk(min(TOP, count), dim=1)
            is_known, first = labels != UNKNOWN, answers[:, 0]
            loss += functional.cross_entropy(
                logits, labels, ignore_index=UNKNOWN, reduction="sum"
            ).item()
            known += int(is_known.sum())
            right += int((first == labels).sum())
            near += int((answers == labels[:, None]).sum())
            pairs = labels[is_known] * count + first[is_known]
            confusion += torch.bincount(pairs, minlength=count * count)
            for image, label, those, parts in zip(
                batch, labels.tolist(), answers.tolist(), chances.tolist(), strict=True
            ):
                truth = "" if label == UNKNOWN else classes[label]
                told = [(classes[n], round(part, 6)) for n, part in zip(those, parts, strict=True)]
                # A file may have a name that is no UTF-8.
                name = os.fsencode(next(names)).decode(errors="backslashreplace")
                rows.append([name, truth, *(cell for pair in told for cell in pair)])
                if label != those[0]:
                    about = {"image": name, "truth": truth or None, "answers": told}
                    # Mistakes before what nobody can tell, and of that the least certain.
                    shown.append((parts[0] if truth else -parts[0], about, image))
            shown = sorted(shown, key=lambda entry: entry[0], reverse=True)[:MOST_SHOWN]
    result = {
        **{"images": len(rows), "labelled": known},
        "loss": loss / known if known else None,
        "accuracy": right / known if known else None,
        "top5": near / known if known and count > TOP else None,
        "confusion": confusion.view(count, count).tolist() if count <= MOST_CONFUSED else None,
        "worst": [{**about, "png": _png(image, normalise)} for _, about, image in shown],
    }
    return result, rows


def _png(image: Tensor, normalise: Normalise) -> str:
    """A normalised image, 3 x height x width, as a PNG in base64."""
    deviations, means = torch.tensor(normalise.deviations), torch.tensor(normalise.means)
    values = image * deviations[:, None, None] + means[:, None, None]
    pixels = (255 * values).round().clamp(0, 255).to(torch.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(stream, "png")
    return base64.b64encode(stream.getvalue()).decode()
