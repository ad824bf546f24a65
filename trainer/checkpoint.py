"""The state of a run on disk."""

import hashlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainer.atomic import replacing
from trainer.checksum import file_checksum
from trainer.errors import CheckpointError

NAME = "epoch-{}.pt"
LAST, BEST = "last.pt", "best.pt"


@dataclass(frozen=True)
class Checkpoint:
    """All that is needed to use a trained model, or to go on training it.

    Attributes:
        model: the model's `state_dict`.
        optimizer: the optimizer's `state_dict`.
        scaler: the loss scaler's `state_dict`; empty where nothing is scaled.
        ema: `state_dict` of the averaged model, or None.
        rng: states of torch's random generators of every rank, by rank, then by device.
        sampler: seed and epoch that the order of images and their augmentation follow from.
        step: steps done; the learning rate follows from it.
        epoch: epochs done.
        accuracy: on the test set, 0 to 1.
        best_accuracy: the highest of the run so far.
        config: the run's configuration as plain values.
    """

    model: dict[str, Any]
    optimizer: dict[str, Any]
    scaler: dict[str, Any]
    ema: dict[str, Any] | None
    rng: list[dict[str, Tensor]]
    sampler: dict[str, int]
    step: int
    epoch: int
    accuracy: float
    best_accuracy: float
    config: dict[str, Any]

    def save(self, path: Path) -> None:
        """Write the checkpoint and its checksum, `<path>.sha256` as `sha256sum` writes it.

        `path` holds the old one or the new one, never a part.
        """
        buffer = io.BytesIO()
        torch.save({field.name: getattr(self, field.name) for field in fields(self)}, buffer)
        digest = hashlib.sha256(buffer.getbuffer()).hexdigest()
        # The checksum first: a checkpoint that bears its name always has one.
        with replacing(_sum_file(path)) as stream:
            stream.write(f"{digest}  {path.name}\n".encode())
        with replacing(path) as stream:
            stream.write(buffer.getbuffer())

    @classmethod
    def load(cls, path: Path) -> "Checkpoint":
        """Read a checkpoint. Only tensors and plain values are accepted, no code.

        Raises:
            CheckpointError: it cannot be read, is not a checkpoint, or has another checksum.
        """
        try:
            path = path.resolve(strict=True)
            expected = _sum_file(path).read_text(encoding="utf-8").split()[0]
            actual = file_checksum(path, "sha256")
            if actual != expected:
                raise ValueError(f"its sha256 is {actual}, expected {expected}")
            return cls(**torch.load(path, map_location="cpu", weights_only=True))
        except Exception as error:  # torch raises half a dozen types for a damaged file
            raise CheckpointError(f"cannot read the checkpoint {path}: {error}") from error


@dataclass(frozen=True)
class CheckpointFolder:
    """The checkpoints of a run: the newest ones and the best.

    `epoch-<n>.pt` are files; `last.pt` and `best.pt` are links to two of them.

    Attributes:
        path: the folder.
        keep: how many of the newest stay; the best stays as well.
    """

    path: Path
    keep: int

    def add(self, checkpoint: Checkpoint, is_best: bool) -> None:
        """Save a checkpoint, point the links to it, and remove what is one too many."""
        name = NAME.format(checkpoint.epoch)
        checkpoint.save(self.path / name)
        for link in (LAST, BEST) if is_best else (LAST,):
            _point(self.path / link, name)
        best = (self.path / BEST).resolve()
        for old in _by_epoch(self.path)[self.keep :]:
            if old != best:
                old.unlink()
                _sum_file(old).unlink(missing_ok=True)


def load_newest(folder: Path, report: Callable[[str], None]) -> Checkpoint:
    """Read the newest good checkpoint of a folder.

    Args:
        folder: where the checkpoints of a run lie.
        report: called with a line for every one that is refused.

    Raises:
        CheckpointError: there is no good one.
    """
    paths = _by_epoch(folder)
    for path in paths:
        try:
            return Checkpoint.load(path)
        except CheckpointError as error:
            report(f"refused: {error}")
    raise CheckpointError(
        f"no checkpoint to go on from in {folder}: "
        + (f"all {len(paths)} are damaged" if paths else f"there is no {NAME.format('<n>')}")
    )


def _by_epoch(folder: Path) -> list[Path]:
    """The checkpoints of a folder, the newest first."""
    paths = {int(path.stem.partition("-")[2]): path for path in folder.glob("epoch-*.pt")}
    return [paths[epoch].resolve() for epoch in sorted(paths, reverse=True)]


def _point(link: Path, name: str) -> None:
    scratch = link.with_name(f".{link.name}")
    scratch.unlink(missing_ok=True)
    scratch.symlink_to(name)
    os.replace(scratch, link)


def _sum_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
