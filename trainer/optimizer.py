"""The optimizer and its parameter groups."""

import torch
from torch import nn


def adamw(model: nn.Module, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
    """Return AdamW over a model's parameters (Loshchilov and Hutter, 2019).

    Only matrices decay. Biases, the gains of normalisation layers and the position embedding do
    not: shrinking them regularises nothing and costs accuracy.
    """
    decayed: list[nn.Parameter] = []
    kept: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        is_matrix = parameter.ndim >= 2 and not name.endswith("position_embedding")
        (decayed if is_matrix else kept).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": kept, "weight_decay": 0.0},
    ]
    # A second moment that forgets in 20 steps instead of 1,000: runs may be that short.
    # Fused: one pass over the memory of each tensor instead of one per operation.
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.95), fused=True)
