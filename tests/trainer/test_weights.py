"""What a network begins from, and what of it learns."""

import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from trainer.checksum import file_checksum
from trainer.config import TrainConfig
from trainer.engines import IndependentEngine
from trainer.errors import CheckpointError, ConfigError
from trainer.export import export
from trainer.learner import Learner, build_learner
from trainer.models import WithoutMemory, all_models, build_model
from trainer.weights import adopt, head_of, read_weights

Save = Callable[..., Path]
HEAD = "classifier.4"


def begun(config: dict[str, Any], classes: int = 10, **changes: Any) -> Learner:
    asked: dict[str, Any] = {**config, "world_size": 1, "engine": "independent", **changes}
    cpu = torch.device("cpu")
    return build_learner(TrainConfig(**asked), classes, 32, IndependentEngine(), cpu, None)


@pytest.mark.parametrize("form", [".pt", ".safetensors", ".pth", "checkpoint"])
@pytest.mark.parametrize("averages", [False, True])
def test_weights_are_those_of_the_file(
    form: str, averages: bool, save: Save, config: dict[str, Any], tmp_path: Path
) -> None:
    path = checkpoint = save(averages)
    if form != "checkpoint":
        path = tmp_path / f"weights{form}"
        export(checkpoint, path)
    if form == ".safetensors":
        # Those of a cache have no suffix.
        path = path.rename(tmp_path / "weights")
    if form == ".pth":
        # As torchvision's references and DistributedDataParallel save it.
        content = torch.load(path, weights_only=True)
        torch.save({"model": {f"module.{name}": value for name, value in content.items()}}, path)
    sum_of_it = file_checksum(path, "sha256")
    learner = begun(config, weights=str(path), weights_sha256=sum_of_it)
    expected = read_weights(checkpoint, None)
    assert all(
        torch.equal(value, expected[name]) for name, value in learner.network.state_dict().items()
    )


def test_a_head_for_other_classes_is_made_new(
    save: Save, config: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    path = save()
    fresh = build_model("cnn_a", 100, 32)
    weights = read_weights(path, None)
    assert adopt(fresh, weights) == f"the head {HEAD} starts at random: 100 classes, not 10"
    for name, value in fresh.state_dict().items():
        assert name.startswith(HEAD) or torch.equal(value, weights[name])
    begun(config, 100, weights=str(path))
    assert f"begins from {path.name}; the head {HEAD} starts at random" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "head"),
    [
        *(("cnn_b", "classifier"), ("vit", "head"), ("resnet18", "fc"), ("swin_t", "head")),
        *(("squeezenet1_1", "classifier.1"), ("mobilenet_v3_small", "classifier.3")),
        *(("googlenet", "fc"), ("vit_b_16", "heads.head"), ("densenet121", "classifier")),
    ],
)
def test_the_head_is_the_layer_that_tells_classes_apart(model: str, head: str) -> None:
    all_models()
    with WithoutMemory():
        network = build_model(model, 7, 32)
    assert head_of(network) == head
    assert len(network.get_submodule(head).weight) == 7


def test_other_weights_are_refused(save: Save, config: dict[str, Any], tmp_path: Path) -> None:
    path = save()
    with pytest.raises(
        ConfigError,
        match=r"features\.3\.body\.0\.0\.weight is missing there, and 64 x 64 x 3 x 3 here",
    ):
        begun(config, model="cnn_b", weights=str(path))
    with pytest.raises(CheckpointError, match=r"its sha256 is .*, expected abc"):
        begun(config, weights=str(path), weights_sha256="abc")
    for name, content in (("list.pt", [1]), ("numbers.pt", {"a": 1})):
        torch.save(content, tmp_path / name)
        with pytest.raises(CheckpointError, match=f"cannot read the weights {name}"):
            begun(config, weights=str(tmp_path / name))
    with tarfile.open(tmp_path / "old.pt", "w") as packed:
        packed.add(path, "storages")
    with pytest.raises(CheckpointError, match=r"old\.pt: it is a tar archive"):
        begun(config, weights=str(tmp_path / "old.pt"))


def test_a_part_of_another_network_is_refused() -> None:
    """Each tensor of resnet18 is in resnet34, with the same shape."""
    weights = build_model("resnet34", 10, 32).state_dict()
    with pytest.raises(ConfigError, match=r"layer1\.2\.conv1\.weight is 64 x .* and missing here"):
        adopt(build_model("resnet18", 10, 32), weights)


@pytest.mark.parametrize(
    ("model", "older"),
    [
        ("resnet18", (r"\.num_batches_tracked$", None)),
        ("densenet121", (r"(denselayer\d+\.(?:norm|conv))([12])\.", r"\1.\2.")),
        ("vit_b_32", (r"mlp\.(0)", "mlp.linear_1")),
        ("googlenet", (r"^fc\.", "aux1.fc2.")),
        ("mnasnet0_5", (r"^$", None)),
    ],
)
def test_files_as_torchvision_has_them(
    model: str, older: tuple[str, str | None], tmp_path: Path
) -> None:
    """Some are of versions that had other names, and no counters; some have further heads."""
    saved = build_model(model, 1000, 224).state_dict()
    pattern, name_before = older
    file = {
        re.sub(pattern, name_before or "", name): value
        for name, value in saved.items()
        if name_before is not None or not re.search(pattern, name)
    }
    torch.save(file, tmp_path / "weights.pth")
    fresh = build_model(model, 7, 224)
    assert "starts at random: 7 classes" in adopt(
        fresh, read_weights(tmp_path / "weights.pth", None)
    )
    first = next(iter(saved))
    assert torch.equal(fresh.state_dict()[first], saved[first])


def test_a_frozen_backbone_does_not_learn(config: dict[str, Any]) -> None:
    learner = begun(config, freeze="backbone", ema=0.9)
    before = {name: value.clone() for name, value in learner.network.named_parameters()}
    images: Tensor = torch.randn(4, 3, 32, 32)
    learner.step(images, torch.tensor([1, 2, 3, 4]), 0.1)
    moved = {
        name
        for name, value in learner.network.named_parameters()
        if not torch.equal(value, before[name])
    }
    assert moved == {f"{HEAD}.weight", f"{HEAD}.bias"}
