"""The state of a run on disk."""

import hashlib
import io
import itertools
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trainer.atomic import replacing
from trainer.checksum import file_checksum
from trainer.errors import CheckpointError

LAST, BEST = "last.pt", "best.pt"

# Bytes that are hashed or brought to the disk at a time: seconds, on the slowest disk.
PIECE = 16 * 1024 * 1024

# What a checkpoint is called: of the end of an epoch, or of a step within the next one.
_NAME = re.compile(r"epoch-([0-9]{1,9})(?:-step-([0-9]{1,12}))?\.pt")


def _nothing() -> None:
    """Ignore a report of progress."""


@dataclass(frozen=True)
class Checkpoint:
    """All that is needed to use a trained model, or to go on training it.

    The fields with a default are those that older checkpoints, all of ends of epochs, do not have.

    Attributes:
        model: the model's `state_dict`; within an epoch with the buffers of rank 0.
        scaler: the loss scaler's `state_dict`; empty where nothing is scaled.
        ema: `state_dict` of the averaged model, or None.
        rng: states of torch's random generators of every rank, by rank, then by device.
        sampler: seed and epoch that the order of images and their augmentation follow from.
        step: steps done, as the world that took the checkpoint counts them.
        epoch: epochs done.
        accuracy: on the validation split, 0 to 1; -1 where nothing is evaluated. On the test set
            in older ones, whose `data` has no `validation_images`.
        best_accuracy: the highest of the run so far; -1 for none.
        images: training images seen by all ranks of the whole run; None in older ones.
        epoch_images: those of the epoch under way; 0 between two epochs.
        ranks: what each rank alone knows of the epoch under way, by rank: `loss`, `right` and
            `loss_images`, the sum of its losses, how many images were classified right, and the
            number of images they are of; `model` and `ema`, the buffers of the two by name. Empty
            between two epochs.
        data: what the parameters were made for: `train_images`, `validation_images`, `classes`
            and `image_size`, the edge in pixels; `description`, that of the data set. Empty in
            older ones, which do not have the last one either.
        loss: mean over the training images of the epoch that it ends; None in older ones, and
            within an epoch.
        validations: loss and accuracy of each validation so far, in their order.
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
    images: int | None = None
    epoch_images: int = 0
    ranks: list[dict[str, Any]] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    loss: float | None = None
    validations: list[tuple[float, float]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its file's name: `epoch-<epochs done>.pt`, within an epoch with `-step-<steps done>`."""
        within = f"-step-{self.step}" if self.epoch_images else ""
        return f"epoch-{self.epoch}{within}.pt"

    def save(self, path: Path, moved: Callable[[], None] = _nothing) -> None:
        """Write the checkpoint and its checksum, `<path>.sha256` as `sha256sum` writes it.

        `path` holds the old one or the new one, never a part.

        Args:
            moved: called again and again while the write gets on, with every `PIECE` bytes.
        """
        buffer = io.BytesIO()
        torch.save({field.name: getattr(self, field.name) for field in fields(self)}, buffer)
        data = buffer.getbuffer()
        pieces = [data[start : start + PIECE] for start in range(0, len(data), PIECE)]
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(piece)
            moved()
        # The checksum first: a checkpoint that bears its name always has one.
        with replacing(_sum_file(path)) as stream:
            stream.write(f"{digest.hexdigest()}  {path.name}\n".encode())
        with replacing(path) as stream:
            for piece in pieces:
                stream.write(piece)
                # Else all of it would go to the disk in one call at the end, which tells nothing.
                stream.flush()
                os.fdatasync(stream.fileno())
                moved()

    @classmethod
    def load(cls, path: Path, sha256: str | None = None) -> "Checkpoint":
        """Read a checkpoint. Only tensors and plain values are accepted, no code.

        Args:
            sha256: its checksum; None for the one that lies beside it.

        Raises:
            CheckpointError: it cannot be read, is not a checkpoint, or has another checksum.
        """
        try:
            path = path.resolve(strict=True)
            expected = sha256 or _sum_file(path).read_text(encoding="utf-8").split()[0]
            actual = file_checksum(path, "sha256")
            if actual != expected:
                raise ValueError(f"its sha256 is {actual}, expected {expected}")
            return cls(**torch.load(path, map_location="cpu", weights_only=True))
        except Exception as error:  # torch raises half a dozen types for a damaged file
            raise CheckpointError(f"cannot read the checkpoint {path}: {error}") from error


@dataclass(frozen=True)
class CheckpointFolder:
    """The checkpoints of a run: the newest ones and the best.

    `epoch-<n>.pt` and `epoch-<n>-step-<s>.pt` are files; `last.pt` and `best.pt` are links to two
    of them.

    Attributes:
        keep: how many of the newest of ends of epochs stay; the best stays as well.
    """

    path: Path
    keep: int

    def add(
        self, checkpoint: Checkpoint, is_best: bool, moved: Callable[[], None] = _nothing
    ) -> None:
        """Save a checkpoint, point the links to it, and remove what is one too many.

        Of those within an epoch the newest stays, until the epoch has ended.
        """
        name = checkpoint.name
        checkpoint.save(self.path / name, moved)
        for link in (LAST, BEST) if is_best else (LAST,):
            _point(self.path / link, name)
        best = (self.path / BEST).resolve()
        files = _files(self.path)
        ends = [file.path for file in files if file.step == 0]
        within = [file.path for file in files if file.step > 0]
        for old in ends[self.keep :] + within:
            if old not in (best, self.path.resolve() / name):
                old.unlink()
                _sum_file(old).unlink(missing_ok=True)


def load_newest(folder: Path, report: Callable[[str], None]) -> Checkpoint:
    """Read the newest good checkpoint of a folder.

    Of several within the same epoch that is the one that has seen the most images: another number
    of ranks counts other steps.

    Args:
        report: called with a line for every one that is refused.

    Raises:
        CheckpointError: there is no good one.
    """
    files = _files(folder)
    for _, group in itertools.groupby(files, lambda file: (file.epoch, file.step > 0)):
        good = []
        for file in group:
            try:
                good.append(Checkpoint.load(file.path))
            except CheckpointError as error:
                report(f"refused: {error}")
        if good:
            return max(good, key=lambda checkpoint: checkpoint.epoch_images)
    raise CheckpointError(
        f"no checkpoint to resume from in {folder}: "
        + (f"all {len(files)} are damaged" if files else "there is no epoch-<n>.pt")
    )


class _File(NamedTuple):
    """A checkpoint of a folder: epochs and steps done, 0 steps at the end of an epoch."""

    epoch: int
    step: int
    path: Path


def _files(folder: Path) -> list[_File]:
    """The checkpoints of a folder, the highest epoch and then the highest step first."""
    found = []
    for path in folder.glob("epoch-*.pt"):
        if match := _NAME.fullmatch(path.name):
            found.append(_File(int(match[1]), int(match[2] or 0), path.resolve()))
    return sorted(found, reverse=True)


def _point(link: Path, name: str) -> None:
    scratch = link.with_name(f".{link.name}")
    scratch.unlink(missing_ok=True)
    scratch.symlink_to(name)
    os.replace(scratch, link)


def _sum_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
