"""Without communication two ranks start from the same parameters and end apart."""

import torch

from trainer.engines import IndependentEngine
from trainer.models.vit import ViT, ViTSize
from trainer.optimizer import adamw
from trainer.step import TrainStep

engine = IndependentEngine()
assert engine.world_size == 2
torch.manual_seed(1)
model = ViT(ViTSize(image_size=8, patch_size=4, width=16, depth=1, heads=2), classes=4)
model, optimizer = engine.distribute(model, adamw(model, 0.01, 0.05))


def fingerprints() -> list[float]:
    return engine.gather(sum(parameter.double().sum().item() for parameter in model.parameters()))


first, second = fingerprints()
assert first == second

generator = torch.Generator().manual_seed(engine.rank)
images = torch.randn(8, 3, 8, 8, generator=generator)
labels = torch.randint(0, 4, (8,), generator=generator)
TrainStep(model, optimizer, "fp32")(images, labels, 0.01)
first, second = fingerprints()
assert first != second
assert engine.sum(torch.tensor([1.0, float(engine.rank)])).tolist() == [2.0, 1.0]
