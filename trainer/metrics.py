"""The run's measurements, a JSON object per line of `metrics.jsonl`."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

Event = Literal["start", "step", "epoch", "end"]


@dataclass(frozen=True)
class Progress:
    """Where the run is.

    Attributes:
        step: steps done.
        steps: steps of the whole run.
        epoch: the epoch, from 1.
        epochs: epochs of the whole run.
    """

    step: int
    steps: int
    epoch: int
    epochs: int


class MetricsWriter:
    """Appends lines to a file. Each is on its way to readers when `write` returns."""

    def __init__(self, path: Path) -> None:
        # Line buffered: a reader never sees half a line, and a killed run loses none.
        self._stream = path.open("a", encoding="utf-8", buffering=1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stream.close()

    def write(
        self,
        event: Event,
        progress: Progress,
        *,
        loss: float | None = None,
        accuracy: float | None = None,
        images_per_second: float | None = None,
        learning_rate: float | None = None,
    ) -> None:
        """Append a line; every line has the same keys.

        Args:
            event: what happened.
            progress: where in the run.
            loss: mean cross-entropy in nats.
            accuracy: share of images classified right, 0 to 1.
            images_per_second: of the whole world.
            learning_rate: of the last step.
        """
        line = {
            "event": event,
            "time": time.time(),
            "step": progress.step,
            "steps": progress.steps,
            "epoch": progress.epoch,
            "epochs": progress.epochs,
            "loss": loss,
            "accuracy": accuracy,
            "images_per_second": images_per_second,
            "lr": learning_rate,
        }
        self._stream.write(json.dumps(line) + "\n")
