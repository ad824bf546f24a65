"""The models that can be trained, by name."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from trainer.errors import ConfigError
from trainer.models.vit import ViT, ViTSize


@dataclass(frozen=True)
class ModelSpec:
    """A model that can be asked for.

    Attributes:
        description: a line for people.
        image_size: edge in pixels of the square images it takes.
        build: makes the model for a number of classes.
    """

    description: str
    image_size: int
    build: Callable[[int], nn.Module]


def _vit(classes: int) -> nn.Module:
    return ViT(ViTSize(image_size=32, patch_size=4, width=192, depth=6, heads=3), classes)


MODELS = {
    "vit": ModelSpec(
        description="vision transformer, 192 wide, 6 layers, patches of 4 pixels",
        image_size=32,
        build=_vit,
    ),
}


def build_model(name: str, classes: int, image_size: int) -> nn.Module:
    """Make a model with fresh parameters.

    Args:
        name: a key of `MODELS`.
        classes: number of classes to tell apart.
        image_size: edge in pixels of the images it will be given.

    Raises:
        ConfigError: there is no such model, or it takes images of another size.
    """
    spec = MODELS.get(name)
    if spec is None:
        raise ConfigError(f"no model {name!r}; there are: {', '.join(sorted(MODELS))}")
    if spec.image_size != image_size:
        raise ConfigError(
            f"{name} takes images of {spec.image_size} x {spec.image_size} pixels, "
            f"the data set has {image_size} x {image_size}"
        )
    return spec.build(classes)


def parameter_count(model: nn.Module) -> int:
    """Number of trainable values."""
    return sum(parameter.numel() for parameter in model.parameters())


def describe_models(classes: int) -> list[dict[str, str | int]]:
    """Name, parameter count and description of every model, without allocating any of them."""
    with torch.device("meta"):
        return [
            {
                "name": name,
                "parameters": parameter_count(spec.build(classes)),
                "description": spec.description,
            }
            for name, spec in sorted(MODELS.items())
        ]
