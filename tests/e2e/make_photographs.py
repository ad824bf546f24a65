"""Writes a small data set of image files to /out; for the trainer image of a node."""

import dataclasses
from pathlib import Path

import numpy as np
from PIL import Image

from trainer.atomic import write_json
from trainer.data.folder import DEVIATIONS, MEANS
from trainer.data.store import Description

ROOT = Path("/out")
CLASSES = ("hen", "pike")
# More than a run trains on: some are held out for validation
IMAGES = {"train": 72, "val": 4}

for folder, count in IMAGES.items():
    names = []
    for number in range(count):
        names.append(f"{CLASSES[number % 2]}/{number}.JPEG")
        path = ROOT / folder / names[-1]
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(number).integers(0, 256, (64, 64, 3), np.uint8)
        Image.fromarray(noise).save(path, "jpeg")
    (ROOT / f"{folder}_files.txt").write_text("\n".join(names) + "\n")
description = Description(
    "cifar10",
    CLASSES,
    IMAGES["train"],
    IMAGES["val"],
    MEANS,
    DEVIATIONS,
    source="made",
    source_sha256="",
    layout="folder",
)
write_json(ROOT / "dataset.json", dataclasses.asdict(description))
