"""A step of two ranks on half a batch each equals a step of one process on the whole batch."""

import torch

from trainer.engine import HorovodEngine
from trainer.models.vit import ViT, ViTSize
from trainer.step import TrainStep

SIZE = ViTSize(image_size=16, patch_size=4, width=32, depth=2, heads=2)
RATE = 0.1


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
TrainStep(alone, sgd(alone), "fp32")(images, labels, RATE)

# Another seed on rank 1: only the broadcast makes the two models the same.
together = fresh_model(seed=1 + engine.rank)
model, optimizer = engine.distribute(together, sgd(together))
TrainStep(model, optimizer, "fp32")(images[engine.rank :: 2], labels[engine.rank :: 2], RATE)

start = fresh_model(seed=1)
for before, one, both in zip(
    start.parameters(), alone.parameters(), together.parameters(), strict=True
):
    torch.testing.assert_close(both - before, one - before, atol=1e-6, rtol=1e-4)
engine.close()
