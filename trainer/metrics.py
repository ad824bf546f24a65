"""The run's measurements, a JSON object per line of `metrics.jsonl`."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

Line = dict[str, Any]
Listener = Callable[[Line], None]
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
    """Appends lines to a file. Each is on its way to readers when `write` returns.

    A resumed run goes on in the file of the run it resumes, where there is one.

    Args:
        path: the file.
        listeners: called with every line as well.
    """

    def __init__(self, path: Path, listeners: Sequence[Listener] = ()) -> None:
        self._listeners = listeners
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
        seconds_per_step: Mapping[str, float] | None = None,
    ) -> None:
        """Append a line; every line has the same keys but for the times.

        Args:
            event: what happened.
            progress: where in the run.
            loss: mean cross-entropy in nats.
            accuracy: share of images classified right, 0 to 1.
            images_per_second: of the whole world.
            learning_rate: of the last step.
            seconds_per_step: where the time went, as `Meter.seconds_per_step` names it.
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
            **(seconds_per_step or {}),
        }
        self._stream.write(json.dumps(line) + "\n")
        for listener in self._listeners:
            listener(line)
