"""Made images of the size of CIFAR-10's, for tests and benchmarks without a download."""

from pathlib import Path

import numpy as np

from trainer.data import store
from trainer.data.preparation import Report
from trainer.data.store import Description, Split

NAME = "synthetic"
CLASSES = tuple(f"class_{number}" for number in range(10))
EDGE = 32
COUNTS = {"train": 50_000, "test": 10_000}
SEED = 1
# Noise around the class's own pattern; a model learns to tell them apart within an epoch.
CONTRAST = 24


def prepare(directory: Path, report: Report) -> bool:
    """Write the data set, always the same one; there is no source.

    Returns:
        Whether anything was written: what is there already is left alone.
    """
    if (directory / "dataset.json").exists():
        for split in store.SPLITS:
            store.read_split(directory, split)
        return False
    generator = np.random.default_rng(SEED)
    patterns = generator.integers(-1, 2, (len(CLASSES), 3, EDGE, EDGE)) * CONTRAST
    # Bytes wrap around: adding 232 takes 24 away.
    patterns = patterns.astype(np.uint8)
    splits = {}
    for name, count in COUNTS.items():
        report(f"making {name}")
        labels = generator.permutation(np.arange(count) % len(CLASSES)).astype(np.uint8)
        images = generator.integers(CONTRAST, 256 - CONTRAST, (count, 3, EDGE, EDGE), np.uint8)
        images += patterns[labels]
        splits[name] = Split(images, labels)
    means, deviations = store.channel_statistics(splits["train"].images)
    description = Description(
        name=NAME,
        classes=CLASSES,
        train_images=COUNTS["train"],
        test_images=COUNTS["test"],
        channel_means=means,
        channel_deviations=deviations,
        source="a random generator",
        source_sha256="",
        # A crop would move the pattern that is all there is to learn, and cost time to measure.
        augmentation="none",
    )
    store.write(directory, description, splits)
    return True
