"""The state of a run on disk."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from trainer.atomic import replacing
from trainer.errors import DataError


@dataclass(frozen=True)
class Checkpoint:
    """All that is needed to use a trained model, or to go on training it.

    Attributes:
        model: the model's `state_dict`.
        optimizer: the optimizer's `state_dict`.
        step: steps done; the schedule and the order of images follow from it.
        epoch: epochs done.
        config: the run's configuration as plain values.
    """

    model: dict[str, Any]
    optimizer: dict[str, Any]
    step: int
    epoch: int
    config: dict[str, Any]

    def save(self, path: Path) -> None:
        """Write the checkpoint; `path` holds the old one or the new one, never a part."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        with replacing(path) as stream:
            torch.save(content, stream)

    @classmethod
    def load(cls, path: Path) -> "Checkpoint":
        """Read a checkpoint. Only tensors and plain values are accepted, no code.

        Raises:
            DataError: it cannot be read or is not a checkpoint.
        """
        try:
            return cls(**torch.load(path, map_location="cpu", weights_only=True))
        except Exception as error:  # torch raises half a dozen types for a damaged file
            raise DataError(f"cannot read the checkpoint {path}: {error}") from error
