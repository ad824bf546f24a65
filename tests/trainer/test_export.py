"""What is exported loads in plain PyTorch."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torchvision
from torch import nn

from trainer.checkpoint import Checkpoint
from trainer.errors import CheckpointError, ConfigError
from trainer.export import export
from trainer.models import build_model

Save = Callable[..., Path]


# MNASNet loads nothing that does not say of which version it is.
@pytest.mark.parametrize("name", ["cnn_a", "mnasnet0_5"])
@pytest.mark.parametrize("averages", [False, True])
def test_a_state_dict_loads_into_the_model(save: Save, averages: bool, name: str) -> None:
    path = save(averages, name)
    to = path.with_name("cnn_a.pt")
    export(path, to)
    weights = torch.load(to, weights_only=True)
    model = build_model(name, 10, 32)
    model.load_state_dict(weights)
    checkpoint = Checkpoint.load(path)
    expected = checkpoint.ema or checkpoint.model
    prefix = "module." if averages else ""
    assert all(torch.equal(value, expected[prefix + name]) for name, value in weights.items())
    about = json.loads(to.with_suffix(".json").read_text())
    assert about["model"] == name
    assert (about["epoch"], about["classes"], about["image_size"]) == (2, 10, 32)


def test_plain_pytorch_loads_it_as_the_documents_say(save: Save) -> None:
    """docs/training.md#weights"""
    path = save(name="resnet18")
    to = path.with_name("resnet18.pt")
    export(path, to)
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    model.load_state_dict(torch.load(to))
    own = build_model("resnet18", 10, 32)
    own.load_state_dict(Checkpoint.load(path).model)
    images = torch.rand(2, 3, 32, 32)
    with torch.inference_mode():
        assert torch.equal(model.eval()(images), own.eval()(images))


def test_safetensors_have_the_same_values(save: Save) -> None:
    path = save()
    to = path.with_name("cnn_a.safetensors")
    export(path, to)
    data = to.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, values = json.loads(data[8 : 8 + length]), data[8 + length :]
    assert length % 8 == 0
    assert header.pop("__metadata__")["model"] == '"cnn_a"'
    model = Checkpoint.load(path).model
    assert header.keys() == model.keys()
    types = {"F32": torch.float32, "I64": torch.int64}
    end = 0
    for name, entry in header.items():
        begin, end = end, entry["data_offsets"][1]
        assert entry["data_offsets"][0] == begin
        read = torch.frombuffer(bytearray(values[begin:end]), dtype=types[entry["dtype"]])
        assert torch.equal(read.reshape(entry["shape"]), model[name])
    assert end == len(values)


def test_what_cannot_be_exported_is_said(save: Save) -> None:
    path = save()
    with pytest.raises(ConfigError, match=r"cnn_a\.onnx: the name is to end in one of \.pt, \.pth"):
        export(path, path.with_name("cnn_a.onnx"))
    path.write_bytes(b"spoilt")
    with pytest.raises(CheckpointError):
        export(path, path.with_name("cnn_a.pt"))
    assert not path.with_name("cnn_a.pt").exists()
