"""The optimizer and its parameter groups."""

import torch
from torch import nn

# Learned vectors and tables that look like weight matrices and are none.
KEPT = ("position_embedding", "pos_embedding", "class_token", "relative_position_bias_table")


def adamw(model: nn.Module, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
    """Return AdamW over a model's parameters (Loshchilov and Hutter, 2019)."""
    # A second moment that forgets in 20 steps instead of 1,000: runs may be that short.
    # Fused: one pass over the memory of each tensor instead of one per operation.
    return torch.optim.AdamW(
        parameter_groups(model, weight_decay), lr=learning_rate, betas=(0.9, 0.95), fused=True
    )


def sgd(
    model: nn.Module, learning_rate: float, weight_decay: float, momentum: float
) -> torch.optim.Optimizer:
    """Return SGD with momentum in Nesterov's form over a model's parameters."""
    return torch.optim.SGD(
        parameter_groups(model, weight_decay),
        lr=learning_rate,
        momentum=momentum,
        nesterov=momentum > 0,
        fused=True,
    )


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Split a model's parameters: only matrices and convolution kernels decay.

    Biases, the gains of normalisation layers and position embeddings do not: shrinking them
    regularises nothing and costs accuracy.
    """
    decayed: list[nn.Parameter] = []
    kept: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        is_matrix = parameter.ndim >= 2 and not name.endswith(KEPT)
        (decayed if is_matrix else kept).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": kept, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
