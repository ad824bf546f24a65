"""Handing a model and a fresh AdamW to Horovod changes neither parameters nor the step count."""

import torch

from trainer.engines import HorovodEngine
from trainer.models.vit import ViT, ViTSize
from trainer.optimizer import adamw

engine = HorovodEngine()
torch.manual_seed(1)
model = ViT(ViTSize(image_size=16, patch_size=4, width=32, depth=1, heads=2), classes=10)
before = [parameter.clone() for parameter in model.parameters()]
_, optimizer = engine.distribute(model, adamw(model, 0.1, 0.5))
assert all(map(torch.equal, before, model.parameters()))
assert optimizer.state_dict()["state"] == {}
engine.close()
