"""`world.json`: the ranks that found each other, as rank 0 wrote it down."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from yard.core.files import read_object
from yard.plays.answers import count as is_count


@dataclass(frozen=True)
class PlacedRank:
    """A rank and the host it runs on."""

    rank: int
    host: str


@dataclass(frozen=True)
class Resumed:
    """The checkpoint that a run went on from; what was done is as the world that took it counts."""

    world_size: int
    batch_per_rank: int
    epoch: int
    step: int
    images: int

    @classmethod
    def from_json(cls, document: Any) -> "Resumed | None":
        """Build one from what `world.json` says; None where it says nothing, or anything else."""
        if not isinstance(document, Mapping):
            return None
        names = ("from_world_size", "from_batch_per_rank", "epoch", "step", "images")
        counts = [document[name] for name in names if is_count(document.get(name))]
        return cls(*counts) if len(counts) == len(names) else None


@dataclass(frozen=True)
class World:
    """The ranks of a run, and what they had in common; empty when no world was formed.

    Attributes:
        ranks: in rank order.
        versions: of what runs in the image, by package.
        train_images, train_images_available, test_images: images trained on, in the training set
            and in the test set.
        validation_images: training images held out for validation; None of older runs.
        classes: of the data set; None of older runs.
        resumed: what the ranks went on from; None where they began anew.
    """

    world_size: int | None = None
    ranks: tuple[PlacedRank, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    train_images: int | None = None
    train_images_available: int | None = None
    test_images: int | None = None
    validation_images: int | None = None
    classes: int | None = None
    resumed: Resumed | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts of the ranks in rank order, each once."""
        return tuple(dict.fromkeys(entry.host for entry in self.ranks))

    def host_of(self, rank: int) -> str | None:
        """The host of a rank; None where it is not known."""
        return next((entry.host for entry in self.ranks if entry.rank == rank), None)


def read_world(path: Path) -> World:
    """Read a world; a missing file, or one that rank 0 did not write so, is an empty world."""
    document = read_object(path)
    versions = document.get("versions", {})
    try:
        ranks = [
            PlacedRank(int(entry["rank"]), str(entry["host"]))
            for entry in document.get("ranks", [])
        ]
        return World(
            world_size=_count(document.get("world_size")),
            ranks=tuple(sorted(ranks, key=lambda entry: entry.rank)),
            versions={str(name): str(version) for name, version in versions.items()},
            train_images=_count(document.get("train_images")),
            train_images_available=_count(document.get("train_images_available")),
            test_images=_count(document.get("test_images")),
            validation_images=_count(document.get("validation_images")),
            classes=_count(document.get("classes")),
            resumed=Resumed.from_json(document.get("resumed")),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return World()


def _count(value: Any) -> int | None:
    return None if value is None else int(value)
