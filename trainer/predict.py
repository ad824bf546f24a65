"""Classifies images with a trained model: a test set, or the files of a folder."""

import base64
import csv
import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional
from torchvision.datasets.folder import IMG_EXTENSIONS

from trainer.atomic import write_json
from trainer.checkpoint import Checkpoint
from trainer.config import TrainConfig
from trainer.data import store
from trainer.data.augment import Normalise
from trainer.data.folder import (
    EVALUATION_MARGIN,
    FileSet,
    FolderEvaluationBatches,
    read_data_set,
)
from trainer.data.loading import check_same
from trainer.data.memory import EvaluationBatches, ImageSet
from trainer.engines import Engine
from trainer.errors import ConfigError
from trainer.evaluation import MOST_CONFUSED, TOP
from trainer.export import evaluated_weights
from trainer.heartbeat import beat
from trainer.models import build_model, parameter_count
from trainer.world import Scale

# The class of an image that nobody has said.
UNKNOWN = -1
MOST_SHOWN = 24


class Images(NamedTuple):
    """What is looked at: a name for each image, and batches of images and classes in that order."""

    names: tuple[str, ...]
    batches: Iterable[tuple[Tensor, Tensor]]


class Seen(NamedTuple):
    """What a model makes of an image.

    Attributes:
        place: among all images.
        label: its class, or UNKNOWN.
        loss: cross-entropy, nats; 0 of an unknown class.
        answers: the likeliest classes, the likeliest first, and how likely each is.
    """

    place: int
    name: str
    label: int
    loss: float
    answers: list[tuple[int, float]]


class Part(NamedTuple):
    """What a rank saw, and of that the worst mistakes, by how bad they are, with a picture."""

    seen: list[Seen]
    worst: list[tuple[float, dict[str, Any]]]


class Model(NamedTuple):
    """A network as it was trained, and the images that it was trained for."""

    about: Mapping[str, Any]
    network: torch.nn.Module
    trained_on: store.Description
    size: int
    normalise: Normalise
    seed: int


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
    device = torch.device("cpu")
    model = _model(checkpoint, data, device)
    if source is None:
        directory = data / (dataset or checkpoint.config["dataset"])
        _, images = _test_set(directory, model, device)
    else:
        margin = EVALUATION_MARGIN if model.trained_on.layout == "folder" else 1.0
        images = _files(source, model, margin)
    write(out, model, [look(model, images, device)])


def evaluate_together(
    config: TrainConfig, engine: Engine, device: torch.device
) -> tuple[Scale, dict[str, Any]]:
    """Have all ranks look at their shards of a test set, and write what one rank would; see above.

    Returns:
        How large model and test set are, and what it came to, by the keys of `metrics.jsonl`.
    """
    checkpoint = Checkpoint.load(Path(config.weights or ""), config.weights_sha256)
    data = Path(config.data_dir)
    model = _model(checkpoint, data, device)
    description, images = _test_set(data / config.dataset, model, device, engine)
    mine = look(model, images, device, engine.rank, engine.world_size)
    parts = engine.gather(mine)
    scale = Scale(
        model_parameters=parameter_count(model.network),
        train_images=0,
        train_images_available=description.train_images,
        test_images=description.test_images,
        validation_images=0,
        classes=len(description.classes),
    )
    if engine.rank:
        return scale, {}
    out = Path(config.run_dir) / "outputs"
    out.mkdir(exist_ok=True)
    result = write(out, model, parts)
    told = {f"test_{name}": result[name] for name in ("loss", "accuracy", "top5")}
    if result["confusion"] is not None:
        told |= {"classes": list(description.classes), "test_confusion": result["confusion"]}
    return scale, told


def write(out: Path, model: Model, parts: Sequence[Part]) -> dict[str, Any]:
    """Write what the ranks saw; returns what it came to."""
    classes = model.trained_on.classes
    seen = sorted(each for part in parts for each in part.seen)
    with (out / "predictions.csv").open("w", encoding="utf-8", newline="") as stream:
        places = range(1, 1 + min(TOP, len(classes)))
        heads = [head for place in places for head in (f"class_{place}", f"probability_{place}")]
        lines = csv.writer(stream)
        lines.writerow(["image", "truth", *heads])
        for each in seen:
            cells = [cell for number, chance in each.answers for cell in (classes[number], chance)]
            lines.writerow([each.name, _name(each.label, classes), *cells])
    worst = [about for _, about in _worst(entry for part in parts for entry in part.worst)]
    result = {**sum_up(seen, len(classes)), "worst": worst}
    write_json(out / "evaluation.json", {**model.about, "classes": list(classes), **result})
    return result


def sum_up(seen: Sequence[Seen], classes: int) -> dict[str, Any]:
    """What they come to: the same to the last digit, however the images were dealt out."""
    known = [each for each in seen if each.label != UNKNOWN]
    count = len(known)
    right = sum(each.answers[0][0] == each.label for each in known)
    near = sum(each.label in dict(each.answers) for each in known)
    confusion = None
    if classes <= MOST_CONFUSED:
        confusion = [[0] * classes for _ in range(classes)]
        for each in known:
            confusion[each.label][each.answers[0][0]] += 1
    return {
        **{"images": len(seen), "labelled": count},
        "loss": math.fsum(each.loss for each in known) / count if count else None,
        "accuracy": right / count if count else None,
        "top5": near / count if count and classes > TOP else None,
        "confusion": confusion,
    }


def _model(checkpoint: Checkpoint, data: Path, device: torch.device) -> Model:
    known = checkpoint.data.get("description")
    # Older checkpoints do not say it.
    trained_on = (
        store.Description(**known)
        if known
        else store.read_description(data / checkpoint.config["dataset"])
    )
    size = checkpoint.data.get("image_size")
    if size is None:
        raise ConfigError(
            f"{checkpoint.name} is of an older version that did not record the image size"
        )
    network = build_model(checkpoint.config["model"], len(trained_on.classes), size)
    network.load_state_dict(evaluated_weights(checkpoint))
    about = {"model": checkpoint.config["model"], "epoch": checkpoint.epoch}
    normalise = Normalise(trained_on.channel_means, trained_on.channel_deviations)
    seed = checkpoint.sampler["seed"]
    return Model(about, network.to(device).eval(), trained_on, size, normalise, seed)


def _test_set(
    directory: Path, model: Model, device: torch.device, engine: Engine | None = None
) -> tuple[store.Description, Images]:
    """A data set, and its test images: all, or the shard of this rank. Each is in one shard."""
    shard = (engine.rank, engine.world_size) if engine else (0, 1)
    description, splits = read_data_set(directory, model.seed)
    if description.classes != model.trained_on.classes:
        raise ConfigError(
            f"{description.name} has other classes than {model.trained_on.name}, which the model "
            "tells apart"
        )
    if splits:
        if engine:
            check_same(splits, engine)
        return description, _batches(splits["test"].shard(*shard), model, device)
    arrays = ImageSet.load(directory, "test")
    if arrays.images.shape[-1] != model.size:
        raise ConfigError(
            f"{description.name} has images of {arrays.images.shape[-1]} pixels, and the model was "
            f"trained with {model.size}"
        )
    names = tuple(map(str, range(len(arrays))))[shard[0] :: shard[1]]
    batches = EvaluationBatches(arrays.shard(*shard).to(device), model.normalise)
    return description, Images(names, batches)


def _files(source: Path, model: Model, margin: float) -> Images:
    files = [file for file in sorted(source.rglob("*")) if file.suffix.lower() in IMG_EXTENSIONS]
    if not files:
        raise ConfigError(f"no image among the files: {', '.join(IMG_EXTENSIONS)}")
    numbers = {name: number for number, name in enumerate(model.trained_on.classes)}
    labels = torch.tensor([numbers.get(file.parent.name, UNKNOWN) for file in files])
    names = tuple(str(file.relative_to(source)) for file in files)
    return _batches(FileSet(source, names, labels), model, torch.device("cpu"), margin)


def _batches(
    files: FileSet, model: Model, device: torch.device, margin: float = EVALUATION_MARGIN
) -> Images:
    threads = torch.get_num_threads()
    batches = FolderEvaluationBatches(files, model.size, threads, model.normalise, device, margin)
    return Images(files.files, batches)


def look(
    model: Model, images: Images, device: torch.device, rank: int = 0, world_size: int = 1
) -> Part:
    """Classify images, the shard of a rank."""
    classes = model.trained_on.classes
    names, seen = enumerate(images.names), []
    worst: list[tuple[float, dict[str, Any], Tensor]] = []
    with torch.inference_mode():
        for batch, labels in images.batches:
            logits = model.network(batch).float()
            chances, answers = logits.softmax(dim=1).topk(min(TOP, len(classes)), dim=1)
            losses = functional.cross_entropy(
                logits, labels, ignore_index=UNKNOWN, reduction="none"
            )
            told = (values.tolist() for values in (labels, losses, answers, chances))
            for image, label, loss, those, parts in zip(batch, *told, strict=True):
                number, path = next(names)
                # A file may have a name that is no UTF-8.
                name = os.fsencode(path).decode(errors="backslashreplace")
                rounded = [round(part, 6) for part in parts]
                pairs = list(zip(those, rounded, strict=True))
                seen.append(Seen(rank + number * world_size, name, label, loss, pairs))
                if label != those[0]:
                    truth = _name(label, classes)
                    named = [(classes[each], part) for each, part in pairs]
                    about = {"image": name, "truth": truth or None, "answers": named}
                    # Mistakes before what nobody can tell, and of that the least certain.
                    worst.append((parts[0] if truth else -parts[0], about, image.cpu()))
            worst = _worst(worst)
            beat()
    pictures = [
        (bad, {**about, "png": _png(image, model.normalise)}) for bad, about, image in worst
    ]
    return Part(seen, pictures)


def _worst(entries: Iterable[Any]) -> list[Any]:
    return sorted(entries, key=lambda entry: entry[0], reverse=True)[:MOST_SHOWN]


def _name(label: int, classes: Sequence[str]) -> str:
    return "" if label == UNKNOWN else classes[label]


def _png(image: Tensor, normalise: Normalise) -> str:
    """A normalised image, 3 x height x width, as a PNG in base64."""
    deviations, means = torch.tensor(normalise.deviations), torch.tensor(normalise.means)
    values = image * deviations[:, None, None] + means[:, None, None]
    pixels = (255 * values).round().clamp(0, 255).to(torch.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(stream, "png")
    return base64.b64encode(stream.getvalue()).decode()
