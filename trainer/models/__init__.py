"""The models that can be trained, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Self

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from trainer.errors import ConfigError
from trainer.models.cnn import DeepCNN, SimpleCNN
from trainer.models.vit import ViT, ViTSize

# What parameters are counted for, and benchmarks run with.
REFERENCE_SIZE = 32
REFERENCE_CLASSES = 10


@dataclass(frozen=True)
class ModelSpec:
    """A model that can be trained.

    Attributes:
        build: makes it for a number of classes and the edge in pixels of the square images.
        image_size: an edge it certainly takes, the one that benchmarks use.
        smallest: the least edge it takes.
        step: the edge must be a multiple of it.
    """

    description: str
    build: Callable[[int, int], nn.Module]
    image_size: int = REFERENCE_SIZE
    smallest: int = REFERENCE_SIZE
    step: int = 1


def _vit(classes: int, image_size: int) -> nn.Module:
    # 64 patches of 4 pixels at 32 x 32, 196 patches of 16 pixels at 224 x 224.
    patch = 4 if image_size <= 64 else 16
    return ViT(ViTSize(image_size, patch_size=patch, width=192, depth=6, heads=3), classes)


def _plain(network: Callable[[int], nn.Module], classes: int, image_size: int) -> nn.Module:
    """Networks that end in a pooling to a fixed size need not know the size of the image."""
    return network(classes)


# To import torchvision takes every rank a second, so that it waits until one of its models is asked
# for.
OWN_MODELS = {
    "cnn_a": ModelSpec(
        description="simple: three convolutions, one hidden layer",
        build=partial(_plain, SimpleCNN),
    ),
    "cnn_b": ModelSpec(
        description="deep: eight convolutions, two shortcuts (ResNet-9, half as wide)",
        build=partial(_plain, DeepCNN),
    ),
    "vit": ModelSpec(
        description="vision transformer, 192 wide, 6 layers, patches of 4 pixels (16 above 64)",
        build=_vit,
        step=16,
    ),
}


@cache
def all_models() -> dict[str, ModelSpec]:
    """The models by name: our own, then torchvision's classifiers."""
    from trainer.models.classifiers import build_classifier, classifier_names

    return OWN_MODELS | {
        name: ModelSpec(description="torchvision", build=partial(build_classifier, name))
        for name in classifier_names()
    }


def build_model(name: str, classes: int, image_size: int) -> nn.Module:
    """Make a model with fresh parameters.

    Args:
        name: a key of `all_models()`.
        image_size: edge in pixels of its images.

    Raises:
        ConfigError: there is no such model, or it does not take images of this size.
    """
    spec = OWN_MODELS.get(name) or all_models().get(name)
    if spec is None:
        raise ConfigError(f"no model {name!r}; there are: {', '.join(all_models())}")
    if image_size < spec.smallest or image_size % spec.step:
        multiple = f", in multiples of {spec.step}" if spec.step > 1 else ""
        raise ConfigError(
            f"{name} takes images from {spec.smallest} x {spec.smallest} pixels on{multiple}; "
            f"the data set has {image_size} x {image_size}"
        )
    return spec.build(classes, image_size)


def parameter_count(model: nn.Module) -> int:
    """Number of trainable values."""
    return sum(parameter.numel() for parameter in model.parameters())


class WithoutMemory(TorchFunctionMode):
    """A context in which parameters have a shape and no memory behind it.

    `torch.device("meta")` would do the same to every tensor, but some networks work out their
    widths with tensors and need the values.
    """

    def __enter__(self) -> Self:
        """Begin; torchvision is imported before, because that computes with tensors too."""
        all_models()
        super().__enter__()
        return self

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Redirect the functions that make parameters."""
        kwargs = kwargs or {}
        if func in (torch.empty, torch.zeros, torch.ones) and kwargs.get("device") is None:
            kwargs["device"] = "meta"
        return func(*args, **kwargs)


@dataclass(frozen=True)
class ModelSummary:
    """A model as the list of models shows it.

    Attributes:
        parameters: number of trainable values, for images of 32 x 32 pixels in 10 classes.
    """

    name: str
    parameters: int
    description: str


def describe_models() -> list[ModelSummary]:
    """Summaries of all models, without allocating any of them."""
    with WithoutMemory():
        return [
            ModelSummary(
                name,
                parameter_count(spec.build(REFERENCE_CLASSES, REFERENCE_SIZE)),
                spec.description,
            )
            for name, spec in all_models().items()
        ]
