"""A step of two ranks on half a batch each equals a step of one process on the whole batch."""

import torch

from trainer.engines import ExchangeOptions, HorovodEngine
from trainer.models.vit import ViT, ViTSize
from trainer.step import TrainStep

SIZE = ViTSize(image_size=16, patch_size=4, width=32, depth=2, heads=2)
RATE = 0.1
CLIP = 0.5  # below the norm of this gradient


def fresh_model(seed: int) -> ViT:
    torch.manual_seed(seed)
    return ViT(SIZE, classes=10)


def sgd(model: ViT) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=RATE)


engine = HorovodEngine()
assert engine.world_size == 2, engine.world_size

generator = torch.Generator().manual_seed(5)
images = torch.randn(8, 3, 16, 16, generator=generator)
labels = torch.randint(0, 10, (8,), generator=generator)

alone = fresh_model(seed=1)
TrainStep(alone, sgd(alone), "fp32", clip_norm=CLIP)(images, labels, RATE)

start = fresh_model(seed=1)


def check(options: ExchangeOptions, atol: float) -> None:
    """Compare the step of both ranks with the one alone."""
    # Another seed on rank 1: only the broadcast makes the two models the same.
    together = fresh_model(seed=1 + engine.rank)
    model, optimizer = engine.distribute(together, sgd(together), options)
    step = TrainStep(
        model, optimizer, "fp32", exchange=engine, accumulate=options.accumulate, clip_norm=CLIP
    )
    step(images[engine.rank :: 2], labels[engine.rank :: 2], RATE)
    assert step.communication_seconds > 0
    for before, one, both in zip(
        start.parameters(), alone.parameters(), together.parameters(), strict=True
    ):
        torch.testing.assert_close(both - before, one - before, atol=atol, rtol=1e-4)


check(ExchangeOptions(), atol=1e-6)
# Each rank in two halves, exchanged once.
check(ExchangeOptions(accumulate=2), atol=1e-6)
# Half the bytes, and half the digits.
check(ExchangeOptions(compression="fp16"), atol=1e-4)
engine.close()
