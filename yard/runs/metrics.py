"""The lines of `metrics.jsonl`."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from yard.core.files import decoded_lines
from yard.core.words import percent

EVENTS = ("start", "step", "epoch", "end")
COUNTS = ("step", "steps", "epoch", "epochs")
SECONDS = ("data_seconds", "compute_seconds", "communication_seconds")
# JSON has integers of any size; up to this one a float has each of them, and can be reckoned with.
LARGEST = 2**53
# Of more classes the trainer writes no confusion matrix.
MOST_CONFUSED = 100
# Keys that older runs do not have, and of the seconds lines other than `step` and `epoch`.
RESULTS = (
    *("validation_loss", "validation_accuracy", "test_loss", "test_accuracy"),
    *("best_test_loss", "best_test_accuracy"),
    *("validation_top5", "test_top5", "best_test_top5"),
)
OPTIONAL = (
    *(*SECONDS, "images", *RESULTS),
    *("best_epoch", "classes", "test_confusion", "wandb_refused"),
)
# Where a value may be missing, as of the loss before the first step.
MEASURED = ("loss", "accuracy", "images_per_second", "lr", *SECONDS, *RESULTS)


@dataclass(frozen=True)
class Metric:
    """One line: `start`, `step`, `epoch` (after its validation) or `end` (after the test).

    schemas/metrics.schema.json says what each field is. None is what the line does not have. An
    older trainer looked at the test set after each epoch, and called that `loss` and `accuracy`.
    """

    event: str
    time: float
    step: int
    steps: int
    epoch: int
    epochs: int
    loss: float | None
    accuracy: float | None
    images_per_second: float | None
    lr: float | None
    data_seconds: float | None = None
    compute_seconds: float | None = None
    communication_seconds: float | None = None
    images: int | None = None
    validation_loss: float | None = None
    validation_accuracy: float | None = None
    test_loss: float | None = None
    test_accuracy: float | None = None
    best_epoch: int | None = None
    best_test_loss: float | None = None
    best_test_accuracy: float | None = None
    validation_top5: float | None = None
    test_top5: float | None = None
    best_test_top5: float | None = None
    classes: list[str] | None = None
    test_confusion: list[list[int]] | None = None
    wandb_refused: str | None = None

    @classmethod
    def from_json(cls, line: Any) -> "Metric | None":
        """Build one from a decoded line; None where it is none: a rank can write anything."""
        if not isinstance(line, Mapping):
            return None
        values: dict[str, Any] = {name: line.get(name) for name in cls.__dataclass_fields__}
        is_complete = all(name in line or name in OPTIONAL for name in values)
        if (
            not is_complete
            or values["event"] not in EVENTS
            or not _is_number(values["time"])
            or not all(_is_count(values[name]) for name in COUNTS)
            or not all(
                values[name] is None or _is_count(values[name]) for name in ("images", "best_epoch")
            )
            or not all(values[name] is None or _is_number(values[name]) for name in MEASURED)
        ):
            return None
        if not isinstance(values["wandb_refused"], str):
            values["wandb_refused"] = None
        if not _is_confusion(values["classes"], values["test_confusion"]):
            values |= {"classes": None, "test_confusion": None}
        if values["event"] in ("epoch", "end") and line.keys().isdisjoint(RESULTS):
            # Of an older trainer; its `end` had the training loss.
            values |= {"test_accuracy": values["accuracy"], "accuracy": None}
            if values["event"] == "epoch":
                values |= {"test_loss": values["loss"], "loss": None}
        return cls(**values)

    @property
    def result(self) -> str:
        """What is known of images that are not trained on, like `validation accuracy 38.1 %`."""
        for split in ("test", "validation"):
            accuracy = getattr(self, f"{split}_accuracy")
            if accuracy is not None:
                return f"{split} accuracy {percent(accuracy)}"
        return ""

    @property
    def key(self) -> tuple[str, int, float]:
        """What tells two lines apart: a poll may bring a line again, an attempt may redo a step."""
        return (self.event, self.step, self.time)

    def to_line(self) -> str:
        """The line as the trainer writes it, with its newline."""
        line = {
            name: value
            for name, value in asdict(self).items()
            if value is not None or name not in OPTIONAL
        }
        return json.dumps(line) + "\n"


def read_every_line(path: Path) -> tuple[Metric, ...]:
    """Read a metrics file; a missing one is empty, and a line cut off by a crash is left out."""
    if not path.is_file():
        return ()
    text = path.read_text(encoding="utf-8", errors="replace")
    return tuple(known_metrics(decoded_lines(text)))


def known_metrics(lines: Iterable[Any]) -> list[Metric]:
    """The metrics among decoded lines, in order."""
    return [metric for line in lines if (metric := Metric.from_json(line)) is not None]


def read_metrics(path: Path) -> tuple[Metric, ...]:
    """Read a metrics file as that of one run.

    A run that started again from a checkpoint has done some steps twice: those that came to
    nothing are left out, and so is its second `start`.
    """
    first, *retries = attempts_of(read_every_line(path)) or [[]]
    for attempt in retries:
        resumed = resumed_at(attempt)
        first = [metric for metric in first if metric.step <= resumed] + attempt[1:]
    return tuple(first)


def of_event(metrics: Iterable[Metric], event: str) -> list[Metric]:
    """The lines of one kind, in order."""
    return [metric for metric in metrics if metric.event == event]


def attempts_of(metrics: Iterable[Metric]) -> list[list[Metric]]:
    """The lines by attempt: each begins with its `start`; a run without retries has one.

    Attempts with another number of ranks, or another batch, count other steps. All steps here are
    those of the last attempt, so that those of one run have one axis.
    """
    attempts: list[list[Metric]] = []
    for metric in metrics:
        if metric.event == "start" or not attempts:
            attempts.append([])
        attempts[-1].append(metric)
    for number in reversed(range(len(attempts) - 1)):
        attempts[number] = _in_steps_of(attempts[number + 1][0], attempts[number])
    return attempts


def _in_steps_of(start: Metric, attempt: Sequence[Metric]) -> list[Metric]:
    """The lines of an attempt with steps as the one that begins with `start` counts them."""
    lines = []
    for metric in attempt:
        # Compared by epoch: the number of epochs may differ too.
        ours, theirs = start.steps * metric.epochs, metric.steps * start.epochs
        if ours == theirs or theirs == 0:
            lines.append(metric)
            continue
        step = round(metric.step * ours / theirs)
        if metric.images is not None and start.images is not None:
            # What was kept, and what was done again, does not depend on rounding.
            is_kept = metric.images <= start.images
            step = min(step, start.step) if is_kept else max(step, start.step + 1)
        lines.append(
            replace(metric, step=step, steps=round(metric.epochs * start.steps / start.epochs))
        )
    return lines


def resumed_at(attempt: Sequence[Metric]) -> int:
    """The step an attempt went on from; 0 for one that began at the beginning."""
    first = next((metric for metric in attempt if metric.event == "step"), None)
    began = attempt[0].step
    return began if began or first is None else first.step - 1


def _is_confusion(classes: Any, matrix: Any) -> bool:
    """Whether these are names, and a square of counts for them; a rank can write anything."""
    return (
        isinstance(classes, list)
        and isinstance(matrix, list)
        and 0 < len(classes) == len(matrix) <= MOST_CONFUSED
        and all(isinstance(name, str) for name in classes)
        and len(set(classes)) == len(classes)
        and all(isinstance(row, list) and len(row) == len(classes) for row in matrix)
        and all(_is_count(count) and count >= 0 for row in matrix for count in row)
    )


def _is_count(value: Any) -> bool:
    return type(value) is int and abs(value) <= LARGEST


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or _is_count(value)
