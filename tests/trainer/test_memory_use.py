"""A thousand steps take no more memory than the first hundred."""

import psutil
import torch

from trainer.data.augment import Mixing, Normalise
from trainer.data.memory import ImageSet, TrainingBatches
from trainer.data.sampler import ShardedSampler
from trainer.meter import Meter, StepTime
from trainer.models.vit import ViT, ViTSize
from trainer.optimizer import adamw
from trainer.step import TrainStep

STEPS = 1000
# A step that kept as little as its batch of floats would have taken 24 MB after 900 steps.
ALLOWED_BYTES = 8_000_000


def test_memory_does_not_grow() -> None:
    images = torch.randint(0, 256, (512, 3, 16, 16), dtype=torch.uint8)
    data = ImageSet(images, torch.randint(0, 4, (512,)))
    batches = TrainingBatches(
        data,
        ShardedSampler(512, 8, 0, 1, seed=1),
        Normalise((0.5,) * 3, (0.25,) * 3),
        Mixing(classes=4, mixup=0.2, cutmix=1.0),
    )
    model = ViT(ViTSize(image_size=16, patch_size=8, width=32, depth=1, heads=2), classes=4)
    step = TrainStep(model, adamw(model, 0.001, 0.05), "fp32")
    process, meter = psutil.Process(), Meter()
    taken, early, epoch = 0, 0, 0
    while taken < STEPS:
        epoch += 1
        for batch in batches.epoch(epoch):
            meter.add(step(*batch, 0.001), step.right, 8, StepTime(0.0, 0.0, 0.0))
            taken += 1
            if taken == STEPS // 10:
                early = process.memory_info().rss
    assert process.memory_info().rss - early < ALLOWED_BYTES
