"""A trained model as a file that plain PyTorch reads: parameters and buffers, nothing else."""

import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainer.atomic import replacing, write_json
from trainer.checkpoint import Checkpoint
from trainer.errors import ConfigError

# How the file of weights may end, and what it is then.
STATE_DICT, SAFETENSORS = (".pt", ".pth"), ".safetensors"
# Names of types in the header of safetensors, by torch's.
SAFE_TYPES = {
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float64: "F64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def export(path: Path, to: Path) -> None:
    """Write the weights of a checkpoint, and beside them what they are for.

    Where the run averaged its parameters, they are the averaged ones, which were evaluated.

    Args:
        to: the file to write; its end says the form. What the weights are for goes to the same name
            with `.json`.

    Raises:
        CheckpointError: the checkpoint is damaged.
        ConfigError: the name of the file to write ends otherwise.
    """
    if to.suffix not in (*STATE_DICT, SAFETENSORS):
        known = ", ".join((*STATE_DICT, SAFETENSORS))
        raise ConfigError(f"{to.name}: the name is to end in one of {known}")
    checkpoint = Checkpoint.load(path)
    weights = evaluated_weights(checkpoint)
    about = describe(checkpoint)
    if to.suffix == SAFETENSORS:
        with replacing(to) as stream:
            stream.writelines(safetensors(weights, {"format": "pt", **_as_text(about)}))
    else:
        with replacing(to) as stream:
            torch.save(weights, stream)
    write_json(to.with_suffix(".json"), about)


def evaluated_weights(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The parameters and buffers that were evaluated, by the names that the model has for them."""
    weights = OrderedDict(checkpoint.model)
    if checkpoint.ema is not None:
        weights = OrderedDict((name, checkpoint.ema[f"module.{name}"]) for name in weights)
    # The versions of the modules: torchvision's MNASNet loads nothing without them.
    vars(weights)["_metadata"] = getattr(checkpoint.model, "_metadata", {})
    return weights


def describe(checkpoint: Checkpoint) -> dict[str, Any]:
    """What weights are for; classes and normalisation are not said by older checkpoints."""
    description = checkpoint.data.get("description", {})
    names = ("channel_means", "channel_deviations")
    return {
        "model": checkpoint.config["model"],
        "dataset": checkpoint.config["dataset"],
        "epoch": checkpoint.epoch,
        "classes": description.get("classes", checkpoint.data.get("classes")),
        "image_size": checkpoint.data.get("image_size"),
        **{name: description[name] for name in names if description},
    }


def safetensors(tensors: dict[str, Tensor], metadata: dict[str, str]) -> list[bytes]:
    """Tensors in the form of safetensors: the header's length, the header, the values.

    The form is so small that its package is not in the image: eight bytes with the length, JSON
    with type, shape and place of each tensor, and then their bytes, little endian.
    """
    header: dict[str, Any] = {"__metadata__": metadata}
    values, begin = [], 0
    for name, tensor in tensors.items():
        data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {
            "dtype": SAFE_TYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, begin + len(data)],
        }
        values.append(data)
        begin += len(data)
    text = json.dumps(header).encode()
    # The values begin at a multiple of eight.
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, *values]


def _as_text(about: dict[str, Any]) -> dict[str, str]:
    return {name: json.dumps(value) for name, value in about.items()}
