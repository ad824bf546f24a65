"""The trainer beside a plain PyTorch loop with the same numbers; no test, it takes hours.

    docker run --rm --network none --env OMP_NUM_THREADS=1 \\
        --volume $PWD/tests/trainer:/tests:ro --volume $PWD/.trainyard/data:/data:ro \\
        --volume $PWD/trainer:/opt/trainyard/lib/trainer:ro --volume /tmp/compared:/out \\
        IMAGE nice -n 19 python3 /tests/compare_plain.py 2400 mobilenet_v3_small cnn_a:2

The image's user has to be able to write to /tmp/compared.

It trains what is named, else all, each with a seed or with 1. `optimizer=sgd learning_rate=0.05`
among the names counts for all of them, and `only=trained` leaves the loop out. It begins nothing
any more after so many seconds, ends a training after five minutes more, and prints a line a
training: which of the two, model, seed, and the accuracy on the same 2,000 test images. The loop
shares with the trainer the networks and the arrays, and nothing else: what is drawn, augmented,
scheduled, stepped and evaluated is written anew here, as torchvision's references and the usual
tutorials have it.
"""

import json
import math
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import update_bn
from torchvision.transforms import v2

from trainer.data import store
from trainer.models import WithoutMemory, build_model

TRAIN, TEST = 6000, 2000
ADAMW = {"optimizer": "adamw", "weight_decay": 0.05, "learning_rate": 0.001}
# What group_vars/all/training.yml has for torchvision's models. A step of two nodes with 32 images
# each, and an epoch of 5,000, are what a local cluster does unasked.
SGD = {"optimizer": "sgd", "weight_decay": 0.0005, "learning_rate": 0.05}
FAMILY = {"epochs": 1, "train_images": 5000, "batch": 64}
FAMILIES = (
    *("squeezenet1_1", "alexnet", "vgg11", "vgg11_bn", "mobilenet_v3_small", "mobilenet_v2"),
    *("shufflenet_v2_x0_5", "mnasnet0_5", "regnet_y_400mf", "resnet18", "efficientnet_b0"),
    *("googlenet", "densenet121", "maxvit_t", "convnext_tiny", "swin_t", "swin_v2_t"),
    *("efficientnet_v2_s", "inception_v3", "resnext50_32x4d", "wide_resnet50_2", "vit_b_32"),
)
ALL = (*FAMILIES, *(f"{name}:{seed}" for name in ("cnn_a", "vit", "cnn_b") for seed in (1, 2, 3)))
OWN = {
    "cnn_a": {**ADAMW, "epochs": 4, "train_images": 5000, "batch": 64},
    "vit": {**ADAMW, "learning_rate": 0.0005, "epochs": 2, "train_images": 2500, "batch": 32},
    "cnn_b": {**ADAMW, "epochs": 2, "train_images": 2500, "batch": 64},
}
WARMUP = 0.1


def main(seconds: float, wanted: Sequence[str]) -> None:
    """Train one after the other until the time is over."""
    said: dict[str, Any] = dict(word.split("=", 1) for word in wanted if "=" in word)
    only = said.pop("only", "")
    numbers_said = {
        name: value if name == "optimizer" else json.loads(value) for name, value in said.items()
    }
    models = [word for word in wanted if "=" not in word] or ALL
    end = time.monotonic() + seconds
    data, out = Path("/tmp/data"), Path("/out")
    splits = {
        name: store.Split(split.images[:count], split.labels[:count])
        for name, count in (("train", TRAIN), ("test", TEST))
        for split in [store.read_split(Path("/data/cifar10"), name)]
    }
    given = store.read_description(Path("/data/cifar10"))
    numbers = {"train_images": TRAIN, "test_images": TEST, "sha256": {}}
    store.write(data / "cifar10", store.Description(**{**vars(given), **numbers}), splits)
    signal.alarm(int(seconds) + 300)
    for model, _, number in (name.partition(":") for name in models):
        seed = int(number or 1)
        for kind in (trained, plain):
            if time.monotonic() > end:
                return
            if only not in ("", kind.__name__):
                continue
            began = time.monotonic()
            result = kind(model, seed, numbers_of(model) | numbers_said, data)
            line = {"kind": kind.__name__, "model": model, "seed": seed, **said, **result}
            line["seconds"] = round(time.monotonic() - began)
            print(json.dumps(line), flush=True)
            with (out / "compared.jsonl").open("a") as stream:
                stream.write(json.dumps(line) + "\n")


def numbers_of(model: str) -> dict[str, Any]:
    """The defaults, which follow from how a model of torchvision's is normalised."""
    if model in OWN:
        return OWN[model]
    with WithoutMemory():
        layers = list(build_model(model, 10, 32).modules())
    of_batch, of_layer = (
        any(isinstance(layer, kind) for layer in layers) for kind in (nn.BatchNorm2d, nn.LayerNorm)
    )
    gentle = {**ADAMW, "learning_rate": 0.0005, "epochs": 2}
    return FAMILY | (SGD if of_batch and not of_layer else gentle)


def trained(model: str, seed: int, numbers: dict[str, Any], data: Path) -> dict[str, float]:
    """What the trainer comes to."""
    run = Path(tempfile.mkdtemp())
    (run / "logs").mkdir()
    config = {
        **{"model": model, "dataset": "cifar10", "data_dir": str(data), "run_dir": str(run)},
        **{"engine": "independent", "backend": "gloo", "precision": "fp32", "seed": seed},
        **{"epochs": numbers["epochs"], "batch_per_rank": numbers["batch"]},
        **{"learning_rate": numbers["learning_rate"], "weight_decay": numbers["weight_decay"]},
        **{"optimizer": numbers["optimizer"], "train_images": numbers["train_images"]},
        **{"warmup_fraction": WARMUP, "label_smoothing": 0.0, "log_every_steps": 20},
        **{"world_size": 1, "hosts": [socket.gethostname()], "checkpoint_seconds": 0},
    }
    (run / "config.json").write_text(json.dumps(config))
    command = ["python3", "-m", "trainer", "train", "--config", str(run / "config.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, done.stderr, flush=True)
    end = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    told = {"loss": end["loss"], "accuracy": end["test_accuracy"], "test_loss": end["test_loss"]}
    return {name: round(value, 4) for name, value in told.items()}


def plain(model: str, seed: int, numbers: dict[str, Any], data: Path) -> dict[str, float]:
    """What a plain loop comes to."""
    torch.manual_seed(1000 + seed)
    description = store.read_description(data / "cifar10")
    means, deviations = list(description.channel_means), list(description.channel_deviations)
    scale = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(means, deviations)])
    augment = v2.Compose([v2.RandomCrop(32, padding=4), v2.RandomHorizontalFlip()])
    images, labels = (np.load(data / f"cifar10/train_{kind}.npy") for kind in ("images", "labels"))
    chosen = torch.randperm(len(labels))[: numbers["train_images"]]
    images, labels = torch.from_numpy(images)[chosen], torch.from_numpy(labels).long()[chosen]
    network = build_model(model, 10, 32)
    optimizer = optimizer_of(network, numbers)
    batch, epochs = numbers["batch"], numbers["epochs"]
    steps = epochs * (len(labels) // batch)
    step, total, count = 0, 0.0, 0
    for epoch in range(epochs):
        network.train()
        for indices in torch.randperm(len(labels)).split(batch):
            if len(indices) < batch:
                break
            step += 1
            for group in optimizer.param_groups:
                group["lr"] = numbers["learning_rate"] * factor(step, steps)
            inputs = scale(torch.stack([augment(image) for image in images[indices]]))
            loss = loss_of(network(inputs), labels[indices])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if epoch == epochs - 1:
                total, count = total + loss.item(), count + 1
    result = {"loss": round(total / count, 4), **tested(network, data, scale)}
    if not any(isinstance(layer, nn.BatchNorm2d) for layer in network.modules()):
        return result
    # Once more with batch normalisation measured anew, as the trainer does.
    several = [scale(part) for part in images[:2048].split(256)]
    update_bn(several, network)
    return {**result, "accuracy_anew": tested(network, data, scale)["accuracy"]}


def factor(step: int, steps: int) -> float:
    """Linear warm-up, then half a cosine."""
    warmup = round(steps * WARMUP)
    if step <= warmup:
        return step / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


def optimizer_of(network: nn.Module, numbers: dict[str, Any]) -> torch.optim.Optimizer:
    """Only matrices and kernels decay."""
    decayed = [value for value in network.parameters() if value.ndim >= 2]
    others = [value for value in network.parameters() if value.ndim < 2]
    groups: list[dict[str, Any]] = [
        {"params": decayed, "weight_decay": numbers["weight_decay"]},
        {"params": others, "weight_decay": 0.0},
    ]
    if numbers["optimizer"] == "sgd":
        return torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True)
    return torch.optim.AdamW(groups, lr=0.1, betas=(0.9, 0.95))


def loss_of(output: Any, labels: Tensor) -> Tensor:
    """Some of torchvision's networks have further heads in training; the first one counts here."""
    logits = output if isinstance(output, Tensor) else output[0]
    return functional.cross_entropy(logits, labels)


def tested(network: nn.Module, data: Path, scale: v2.Compose) -> dict[str, float]:
    """Accuracy and mean loss of the test images."""
    network.eval()
    images = torch.from_numpy(np.load(data / "cifar10/test_images.npy"))
    labels = torch.from_numpy(np.load(data / "cifar10/test_labels.npy")).long()
    with torch.inference_mode():
        logits = torch.cat([network(scale(part)) for part in images.split(250)])
    loss = functional.cross_entropy(logits, labels).item()
    right = int((logits.argmax(1) == labels).sum())
    return {"accuracy": right / len(labels), "test_loss": round(loss, 4)}


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
