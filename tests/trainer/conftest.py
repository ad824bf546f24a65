"""Fixtures shared by the trainer's tests."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch

from trainer.checkpoint import Checkpoint
from trainer.data import cifar10, store
from trainer.models import build_model

CIFAR10 = Path("/data/cifar10")
SCHEMAS = Path("/schemas")


def pytest_configure(config: pytest.Config) -> None:
    # The tensors here are small: threads would wait for each other, on a busy machine for long.
    torch.set_num_threads(1)
    config.addinivalue_line("markers", "data: needs the prepared CIFAR-10 at /data/cifar10")
    config.addinivalue_line("markers", "promise(name, ...): see tests/README.md")


@pytest.fixture(scope="session")
def real_splits() -> dict[str, store.Split]:
    """The real CIFAR-10, as prepared by the trainer."""
    if not CIFAR10.is_dir():
        pytest.fail(f"{CIFAR10} is missing: mount the prepared data, or run with -m 'not data'")
    return {name: store.read_split(CIFAR10, name) for name in store.SPLITS}


@pytest.fixture(scope="session")
def small_cifar10(
    real_splits: dict[str, store.Split], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A data directory with the first 1,000 training and 201 test images of CIFAR-10.

    An odd number of test images, so that two ranks have shares of different size.
    """
    data_dir = tmp_path_factory.mktemp("data")
    splits = {
        name: store.Split(real_splits[name].images[:count], real_splits[name].labels[:count])
        for name, count in (("train", 1000), ("test", 201))
    }
    description = store.Description(
        name="cifar10",
        classes=cifar10.CLASSES,
        train_images=1000,
        test_images=201,
        channel_means=cifar10.PUBLISHED.means,
        channel_deviations=cifar10.PUBLISHED.deviations,
        source="the first images",
        source_sha256="",
    )
    store.write(data_dir / "cifar10", description, splits)
    return data_dir


@pytest.fixture
def validate() -> Callable[[Any, str], None]:
    """Check a document against a schema of the repository, by its name without suffixes."""

    def check(document: Any, name: str) -> None:
        schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator(schema).validate(document)

    return check


@pytest.fixture
def config() -> dict[str, Any]:
    """A valid configuration document for two ranks on this host."""
    return {
        "model": "cnn_a",
        "dataset": "cifar10",
        "data_dir": "/data",
        "run_dir": "/run/trainyard",
        "engine": "horovod",
        "precision": "fp32",
        "epochs": 1,
        "batch_per_rank": 16,
        "learning_rate": 0.001,
        "weight_decay": 0.05,
        "warmup_fraction": 0.1,
        "label_smoothing": 0.0,
        "train_images": 480,
        "seed": 1,
        "log_every_steps": 5,
        "world_size": 2,
        "hosts": [socket.gethostname()],
        "backend": "gloo",
    }


@pytest.fixture
def make_run_dir(tmp_path: Path, small_cifar10: Path) -> Callable[..., Path]:
    """Write a run directory for a configuration document on the small data set."""

    def make(document: dict[str, Any], name: str = "run") -> Path:
        run_dir = tmp_path / name
        (run_dir / "logs").mkdir(parents=True)
        document = {**document, "data_dir": str(small_cifar10), "run_dir": str(run_dir)}
        (run_dir / "config.json").write_text(json.dumps(document))
        return run_dir

    return make


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    """Write a checkpoint of a model, with the average of its parameters where that is asked for."""

    def write(averages: bool = False, name: str = "cnn_a") -> Path:
        model = build_model(name, 10, 32)
        ema = None
        if averages:
            averaged = torch.optim.swa_utils.AveragedModel(build_model(name, 10, 32))
            ema = averaged.state_dict()
        checkpoint = Checkpoint(
            model=model.state_dict(),
            optimizer={},
            scaler={},
            ema=ema,
            rng=[],
            sampler={"seed": 1, "epoch": 2},
            step=20,
            epoch=2,
            accuracy=0.5,
            best_accuracy=0.5,
            config={"model": name, "dataset": "cifar10"},
            data={"classes": 10, "image_size": 32},
        )
        checkpoint.save(tmp_path / "epoch-2.pt")
        return tmp_path / "epoch-2.pt"

    return write
