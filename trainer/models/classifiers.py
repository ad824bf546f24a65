"""torchvision's classifiers, made for images of 224 pixels, fitted to the images there are."""

from typing import Any

import torchvision
from torch import nn

from trainer.errors import ConfigError

# Up to this edge in pixels a network's first layers would throw most of the image away.
SMALL = 64
# Patches on small images: as is usual for transformers on CIFAR, and half as large where the
# network halves the resolution several times after them.
SMALL_PATCH = 4
SMALL_PYRAMID_PATCH = 2


def classifier_names() -> list[str]:
    """Names of torchvision's classifiers, `resnet18` and the like."""
    return list(torchvision.models.list_models(module=torchvision.models))


def build_classifier(name: str, classes: int, image_size: int) -> nn.Module:
    """Make one of them with fresh parameters.

    For images of up to 64 pixels the stem keeps the resolution, as He et al. (2016) did for
    CIFAR: a first convolution of 3 x 3 without stride, no pooling after it, smaller patches.

    Args:
        name: one of `classifier_names`.
        image_size: edge of the images in pixels.

    Raises:
        ConfigError: it cannot be made for images of this size.
    """
    options: dict[str, Any] = {"num_classes": classes, "weights": None}
    build = torchvision.models.get_model_builder(name)
    try:
        if name.startswith("vit_"):
            return _vision_transformer(name, image_size, options)
        if name == "maxvit_t":
            return _maxvit(classes, image_size)
        if name in ("googlenet", "inception_v3"):
            # Their side exits have a loss of their own, and want images of a certain size.
            options |= {"aux_logits": False, "init_weights": True}
        model = build(**options)
        if name.startswith(("efficientnet", "mnasnet")):
            # torchvision has the head begin the larger, the fewer classes there are. With 10 the
            # loss was above 8 and 16 over the first steps, where 1,000 are what it is made for.
            model.classifier[-1].reset_parameters()
    except ValueError as error:
        raise ConfigError(
            f"{name} takes no images of {image_size} x {image_size} pixels: {error}"
        ) from error
    if image_size <= SMALL:
        _keep_resolution(model)
    return model


def _vision_transformer(name: str, image_size: int, options: dict[str, Any]) -> nn.Module:
    """The size of a patch is fixed by the name; on small images only the name stays."""
    build = torchvision.models.get_model_builder(name)
    patch = int(name.rsplit("_", maxsplit=1)[1])
    if image_size > SMALL:
        if image_size % patch:
            raise ValueError(f"patches of {patch} do not tile them")
        return build(image_size=image_size, **options)
    # Built for as many patches as the image will have, then the projection is replaced by one of
    # small patches.
    model = build(image_size=image_size // SMALL_PATCH * patch, **options)
    model.image_size, model.patch_size = image_size, SMALL_PATCH
    model.conv_proj = _like(model.conv_proj, SMALL_PATCH, stride=SMALL_PATCH)
    return model


def _maxvit(classes: int, image_size: int) -> nn.Module:
    """`maxvit_t` with the largest window up to its own 7 that tiles the last stage.

    torchvision's builder fixes the window; the other numbers are the builder's.
    """
    if image_size % 32:
        raise ValueError("the edge must be a multiple of 32")
    window = max(window for window in range(1, 8) if image_size // 32 % window == 0)
    return torchvision.models.MaxVit(
        input_size=(image_size, image_size),
        stem_channels=64,
        partition_size=window,
        block_channels=[64, 128, 256, 512],
        block_layers=[2, 2, 5, 2],
        head_dim=32,
        stochastic_depth_prob=0.2,
        num_classes=classes,
    )


def _keep_resolution(model: nn.Module) -> None:
    """Replace the first convolution, if it reduces the image, and the pooling of the stem."""
    name, first = next(
        (name, module) for name, module in model.named_modules() if isinstance(module, nn.Conv2d)
    )
    if first.stride == first.kernel_size:
        patch = SMALL_PYRAMID_PATCH
        model.set_submodule(name, _like(first, patch, stride=patch))
    elif first.stride != (1, 1):
        model.set_submodule(name, _like(first, 3, padding=1))
        for name, module in model.named_modules():
            if isinstance(module, nn.MaxPool2d):
                model.set_submodule(name, nn.Identity())
                break


def _like(convolution: nn.Conv2d, kernel_size: int, stride: int = 1, padding: int = 0) -> nn.Conv2d:
    fresh = nn.Conv2d(
        convolution.in_channels,
        convolution.out_channels,
        kernel_size,
        stride,
        padding,
        bias=convolution.bias is not None,
    )
    nn.init.kaiming_normal_(fresh.weight, mode="fan_out", nonlinearity="relu")
    return fresh
