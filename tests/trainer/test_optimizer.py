"""The optimizers compute what those of PyTorch compute, and start without its compiler."""

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import nn

from trainer.optimizer import adamw, sgd

# A process of its own: in this one another test may have loaded the compiler.
STEPS = """
import sys
import torch
from trainer.optimizer import adamw, sgd
model = torch.nn.Linear(3, 2)
for optimizer in (adamw(model, 0.01, 0.05), sgd(model, 0.01, 0.05, 0.9)):
    optimizer.zero_grad()
    model(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
print("torch._dynamo" in sys.modules)
"""


def parameters_after(
    make: Callable[[nn.Module], torch.optim.Optimizer],
) -> list[nn.Parameter]:
    """What five steps make of the parameters of a small network."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = make(model)
    for _ in range(5):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(8, 12)), torch.arange(8) % 3).backward()
        optimizer.step()
    return list(model.parameters())


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (
            lambda model: adamw(model, 0.01, 0.0),
            lambda model: torch.optim.AdamW(
                model.parameters(), lr=0.01, betas=(0.9, 0.95), weight_decay=0.0, fused=True
            ),
        ),
        (
            lambda model: sgd(model, 0.01, 0.0, 0.9),
            lambda model: torch.optim.SGD(
                model.parameters(), lr=0.01, momentum=0.9, nesterov=True, fused=True
            ),
        ),
    ],
    ids=["adamw", "sgd"],
)
def test_steps_are_those_of_pytorch_to_the_bit(
    ours: Callable[[nn.Module], torch.optim.Optimizer],
    theirs: Callable[[nn.Module], torch.optim.Optimizer],
) -> None:
    pairs = zip(parameters_after(ours), parameters_after(theirs), strict=True)
    assert all(torch.equal(a, b) and a.requires_grad for a, b in pairs)


def test_the_compiler_is_not_loaded() -> None:
    said = subprocess.run([sys.executable, "-c", STEPS], check=True, capture_output=True, text=True)
    assert said.stdout == "False\n"


def test_pytorchs_own_classes_keep_their_steps() -> None:
    before = torch.optim.AdamW.step
    adamw(nn.Linear(3, 2), 0.01, 0.05)
    assert torch.optim.AdamW.step is before
