"""CIFAR-100 (Krizhevsky, 2009): as CIFAR-10, but 600 images of each of 100 classes.

There is one source, the author's own archive; no package registry carries these images.
"""

import pickle
import tarfile
from pathlib import Path

import numpy as np

from trainer.data import preparation
from trainer.data.preparation import Published, Report, expect_checksum, member
from trainer.data.store import SPLITS, Split
from trainer.errors import DataError

EDGE = 32
NAMES = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus
    butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch
    crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo
    keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse
    mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy
    porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper
    snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television
    tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
    """
CLASSES = tuple(NAMES.split())

PUBLISHED = Published(
    name="cifar100",
    classes=CLASSES,
    counts={"train": 50_000, "test": 10_000},
    shape=(3, EDGE, EDGE),
)


def prepare(source: Path, directory: Path, report: Report) -> bool:
    """Decode the archive into a prepared data set; see `preparation.prepare`."""
    return preparation.prepare(PUBLISHED, source, directory, report, _decode)


def _decode(source: Path, report: Report) -> dict[str, Split]:
    # Before anything is read: the archive holds pickles.
    expect_checksum(source, PUBLISHED.name, "canonical")
    with tarfile.open(source) as tar:
        names = pickle.loads(member(tar, "cifar-100-python/meta"))["fine_label_names"]
        if tuple(names) != PUBLISHED.classes:
            raise DataError(f"{source} names other classes than CIFAR-100 has")
        return {split: _split(tar, split, report) for split in SPLITS}


def _split(tar: tarfile.TarFile, name: str, report: Report) -> Split:
    report(f"decoding {name}")
    content = pickle.loads(member(tar, f"cifar-100-python/{name}"), encoding="latin1")
    images = content["data"].reshape(-1, 3, EDGE, EDGE)
    return Split(images, np.array(content["fine_labels"], dtype=np.uint8))
