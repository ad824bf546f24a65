"""Finds the layer in which the loss became infinite or NaN."""

import socket

import torch
from torch import Tensor, nn

from trainer.errors import DivergenceError
from trainer.learner import Learner
from trainer.step import autocast


def divergence(
    loss: float, images: Tensor, step: int, learner: Learner, rank: int
) -> DivergenceError:
    """Return the error to raise when the loss is infinite or NaN: training cannot recover."""
    place = first_non_finite(learner.network, images, learner.train_step.precision)
    return DivergenceError(
        f"the training loss became {loss} at step {step} on rank {rank} "
        f"({socket.gethostname()}): {place}"
    )


def first_non_finite(model: nn.Module, images: Tensor, precision: str) -> str:
    """Say in which layer the first infinity or NaN appears.

    The parameters are looked at first; then the batch goes through the model once more, and every
    layer's output is looked at as it comes.

    Args:
        model: as it was when the loss went wrong.

    Returns:
        The end of a sentence, such as "the first output that is not finite is that of layer
        blocks.3.mlp.0 (Linear)".
    """
    if not torch.isfinite(images).all():
        return "the images of its batch are not finite"
    for name, parameter in model.named_parameters():
        if not torch.isfinite(parameter).all():
            return f"an earlier update made parameter {name} infinite or NaN"
    culprits: list[str] = []

    def look(name: str, module: nn.Module) -> None:
        def hook(module: nn.Module, inputs: object, output: object) -> None:
            if not culprits and isinstance(output, Tensor) and not torch.isfinite(output).all():
                culprits.append(f"{name} ({type(module).__name__})")

        handles.append(module.register_forward_hook(hook))

    handles: list[torch.utils.hooks.RemovableHandle] = []
    for name, module in model.named_modules():
        # Layers that hold others speak through them.
        if next(module.children(), None) is None:
            look(name, module)
    try:
        with torch.no_grad(), autocast(precision, images.device.type):
            model(images)
    finally:
        for handle in handles:
            handle.remove()
    if culprits:
        return f"the first output that is not finite is that of layer {culprits[0]}"
    return "every layer's output is finite, the loss itself is not"
