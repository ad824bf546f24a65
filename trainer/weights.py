"""Fine-tuning: training that starts from given weights."""

import json
import re
import tarfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from trainer.checkpoint import Checkpoint
from trainer.checksum import file_checksum
from trainer.errors import CheckpointError, ConfigError
from trainer.export import SAFE_TYPES, evaluated_weights

# Of the networks that are made without further heads; torchvision's files have them.
FURTHER_HEADS = ("aux1.", "aux2.", "AuxLogits.")
# In torchvision's files of DenseNet: norm.1 for norm1.
DENSE_LAYER = re.compile(r"(denselayer\d+\.(?:norm|conv))\.(?=[12]\.)")


def head_of(network: nn.Module) -> str:
    """The name of the layer that tells the classes apart, the last one of a classifier."""
    layers: list[str] = [
        name
        for name, module in network.named_modules()
        if isinstance(module, nn.Linear | nn.Conv2d)
    ]
    return layers[-1]


def freeze_backbone(network: nn.Module) -> None:
    """Have only the head learn."""
    head = head_of(network)
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(name.startswith(f"{head}."))


def adopt(network: nn.Module, weights: dict[str, Tensor]) -> str:
    """Give a network weights, all but those of a head for another number of classes.

    Returns:
        What was made new, for the log; empty where nothing was.

    Raises:
        ConfigError: they are of another network.
    """
    own, head = network.state_dict(), head_of(network)
    other = [name for name in own if name in weights and own[name].shape != weights[name].shape]
    fitting = OrderedDict((name, weights[name]) for name in weights if name not in other)
    # Modules then take what older versions of them saved, which knew other names and no counters.
    vars(fitting)["_metadata"] = {"": {"version": network._version}}
    missing, further = other, []
    if all(name.startswith(f"{head}.") for name in other):
        missing, further = network.load_state_dict(fitting, strict=False)
    misfits = [*missing, *(name for name in further if not name.startswith(FURTHER_HEADS))]
    mismatched = [name for name in misfits if not name.startswith(f"{head}.")]
    if mismatched:
        name = mismatched[0]
        shapes = [
            " x ".join(map(str, those[name].shape)) or "a number" if name in those else "missing"
            for those in (weights, own)
        ]
        raise ConfigError(
            f"the weights are of another network: {len(mismatched)} tensors do not fit. "
            f"{name} is {shapes[0]} there, and {shapes[1]} here; for images of up to 64 pixels a "
            "network has another first layer"
        )
    if not missing:
        return ""
    before = f", not {len(weights[other[0]])}" if other else ""
    return f"the head {head} starts at random: {len(own[f'{head}.weight'])} classes{before}"


def read_weights(path: Path, sha256: str | None) -> dict[str, Tensor]:
    """Read a file of weights: a checkpoint of this trainer, a `state_dict`, or safetensors.

    A `state_dict` may be the `model` or `state_dict` of what other programs save. Only tensors and
    plain values are accepted, no code.

    Raises:
        CheckpointError: it is another file than was asked for, or none of these.
    """
    try:
        actual = file_checksum(path, "sha256")
        if sha256 not in (None, actual):
            raise ValueError(f"its sha256 is {actual}, expected {sha256}")
        # By its content: what a link to a file in a cache leads to has no suffix there.
        with path.open("rb") as file:
            is_safetensors = file.read(9)[8:] == b"{"
        if is_safetensors:
            return _safetensors(path.read_bytes())
        if tarfile.is_tarfile(path):
            # Of these, versions of PyTorch before 2.6 run code in spite of `weights_only`.
            raise ValueError("it is a tar archive; save its state_dict anew with torch.save")
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
        if {"model", "optimizer", "epoch", "rng"} <= content.keys():
            return evaluated_weights(Checkpoint(**content))
        content = content.get("model", content.get("state_dict", content))
        tensors = {
            DENSE_LAYER.sub(r"\1", name.removeprefix("module.")): value
            for name, value in content.items()
        }
        if not all(isinstance(value, Tensor) for value in tensors.values()):
            raise ValueError("it holds no state_dict")
    except Exception as error:  # torch raises half a dozen types for a damaged file
        raise CheckpointError(f"cannot read the weights {path.name}: {error}") from error
    return tensors


def _safetensors(data: bytes) -> dict[str, Tensor]:
    """The inverse of `trainer.export.safetensors`."""
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    types = {name: kind for kind, name in SAFE_TYPES.items()}
    tensors = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        values = bytearray(data[begin + first : begin + last])
        tensors[name] = torch.frombuffer(values, dtype=types[entry["dtype"]]).reshape(
            entry["shape"]
        )
    return tensors
