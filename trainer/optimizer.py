"""The optimizer and its parameter groups."""

import inspect
from typing import TypeVar, cast

import torch
from torch import nn

Kind = TypeVar("Kind", bound=type[torch.optim.Optimizer])

# Learned vectors and tables that look like weight matrices and are none.
KEPT = ("position_embedding", "pos_embedding", "class_token", "relative_position_bias_table")


def adamw(model: nn.Module, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
    """Return AdamW over a model's parameters (Loshchilov and Hutter, 2019)."""
    # A second moment that forgets in 20 steps instead of 1,000: runs may be that short.
    # Fused: one pass over the memory of each tensor instead of one per operation.
    return without_compiler(torch.optim.AdamW)(
        parameter_groups(model, weight_decay), lr=learning_rate, betas=(0.9, 0.95), fused=True
    )


def sgd(
    model: nn.Module, learning_rate: float, weight_decay: float, momentum: float
) -> torch.optim.Optimizer:
    """Return SGD with momentum in Nesterov's form over a model's parameters."""
    return without_compiler(torch.optim.SGD)(
        parameter_groups(model, weight_decay),
        lr=learning_rate,
        momentum=momentum,
        nesterov=momentum > 0,
        fused=True,
    )


def without_compiler(kind: Kind) -> Kind:
    """Return an optimizer's class that does the same and does not load the compiler, torch._dynamo.

    torch.optim loads it at the first call of some methods, to say that they are not to be compiled.
    No optimizer is compiled here, and the import takes half as long as that of torch itself.

    Source: torch/_compile.py and torch/optim/optimizer.py of PyTorch 2.6. With a version that does
    it otherwise, the compiler is loaded as ever.
    """
    for method in vars(torch.optim.Optimizer).values():
        plain = getattr(method, "__wrapped__", None)
        if plain is not None:
            # Where torch keeps what the compiler made of the method: the same, not to be compiled.
            vars(plain).setdefault("__dynamo_disable", plain)
    # A step computes no gradients; torch's own wrapper for that asks the compiler too.
    step = torch.no_grad()(inspect.unwrap(kind.step))
    return cast(Kind, type(kind.__name__, (kind,), {"step": step, "__module__": kind.__module__}))


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Split a model's parameters: only matrices and convolution kernels decay.

    Biases, the gains of normalisation layers and position embeddings do not: shrinking them
    regularises nothing and costs accuracy.
    """
    decayed: list[nn.Parameter] = []
    kept: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        is_matrix = parameter.ndim >= 2 and not name.endswith(KEPT)
        (decayed if is_matrix else kept).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": kept, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
