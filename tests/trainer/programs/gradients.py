"""A step of two ranks on half a batch each equals a step of one process on the whole batch."""

from collections.abc import Callable

import torch
from torch import nn

from trainer.engines import ExchangeOptions, HorovodEngine
from trainer.models.vit import ViT, ViTSize
from trainer.step import TrainStep

SIZE = ViTSize(image_size=16, patch_size=4, width=32, depth=2, heads=2)
RATE = 0.1
CLIP = 0.5  # below the norm of this gradient


def vit() -> nn.Module:
    return ViT(SIZE, classes=10)


def convolutions() -> nn.Module:
    layers = (nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Flatten(), nn.Linear(1152, 10))
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


def fresh_model(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return make()


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=RATE)


engine = HorovodEngine()
assert engine.world_size == 2, engine.world_size

generator = torch.Generator().manual_seed(5)
images = torch.randn(8, 3, 16, 16, generator=generator)
labels = torch.randint(0, 10, (8,), generator=generator)


def check(
    make: Callable[[], nn.Module], options: ExchangeOptions, atol: float, accumulate: int = 1
) -> None:
    """Compare the step of both ranks with the one alone."""
    start, alone = fresh_model(make, seed=1), fresh_model(make, seed=1)
    TrainStep(alone, sgd(alone), "fp32", clip_norm=CLIP)(images, labels, RATE)
    # Another seed on rank 1: only the broadcast makes the two models the same.
    together = fresh_model(make, seed=1 + engine.rank)
    model, optimizer = engine.distribute(together, sgd(together), options)
    step = TrainStep(
        model, optimizer, "fp32", exchange=engine, accumulate=accumulate, clip_norm=CLIP
    )
    step(images[engine.rank :: 2], labels[engine.rank :: 2], RATE)
    assert step.communication_seconds > 0
    for before, one, both in zip(
        start.parameters(), alone.parameters(), together.parameters(), strict=True
    ):
        torch.testing.assert_close(both - before, one - before, atol=atol, rtol=1e-4)


check(vit, ExchangeOptions(), atol=1e-6)
# Each rank in two halves, exchanged once.
check(vit, ExchangeOptions(), atol=1e-6, accumulate=2)
check(vit, ExchangeOptions(buckets=4), atol=1e-6, accumulate=2)
# Half the bytes, and half the digits.
check(vit, ExchangeOptions(compression="fp16"), atol=1e-4)
# Weights that do not lie in memory as their dimensions are counted.
check(convolutions, ExchangeOptions(), atol=1e-6)
check(convolutions, ExchangeOptions(compression="fp16"), atol=1e-4)
engine.close()
