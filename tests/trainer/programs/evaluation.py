"""Two ranks evaluate shares of unequal size to exactly the result of one process."""

import torch

from trainer.data.augment import Normalise
from trainer.data.memory import EvaluationBatches, ImageSet
from trainer.engines import HorovodEngine
from trainer.evaluation import evaluate
from trainer.models.vit import ViT, ViTSize

IMAGES = 1101

engine = HorovodEngine()
generator = torch.Generator().manual_seed(3)
images = torch.randint(0, 256, (IMAGES, 3, 8, 8), dtype=torch.uint8, generator=generator)
labels = torch.randint(0, 4, (IMAGES,), generator=generator)
normalise = Normalise((0.5,) * 3, (0.25,) * 3)
torch.manual_seed(1)
model = ViT(ViTSize(image_size=8, patch_size=4, width=16, depth=1, heads=2), classes=4)

shard = ImageSet(images, labels).shard(engine.rank, engine.world_size)
assert len(shard) == (551, 550)[engine.rank]
result = evaluate(model, EvaluationBatches(shard, normalise), engine, "fp32", classes=4)

with torch.inference_mode():
    logits = model(normalise(images))
assert result.images == IMAGES
answers = logits.argmax(dim=1)
pairs = torch.stack([labels, answers], dim=1).tolist()
assert result.confusion is not None
assert result.confusion.tolist() == [[pairs.count([a, b]) for b in range(4)] for a in range(4)]
# Among five of four classes it always is.
assert result.top5 is None
assert result.accuracy == (logits.argmax(dim=1) == labels).double().mean().item()
expected = torch.nn.functional.cross_entropy(logits, labels).item()
assert abs(result.loss - expected) < 1e-5, (result.loss, expected)
assert model.training
engine.close()
