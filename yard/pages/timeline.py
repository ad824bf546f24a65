"""Where the time of a run went: getting ready, training, retries, collecting."""

from collections.abc import Sequence
from dataclasses import dataclass

from yard.runs.manifest import Manifest
from yard.runs.metrics import Metric, attempts_of, of_event, resumed_at

# More ticks than this on one line are a grey bar.
MOST_EPOCHS = 60


@dataclass(frozen=True)
class Segment:
    """A stretch of the run, in seconds since the command; `kind` names its colour."""

    kind: str
    label: str
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.begin


@dataclass(frozen=True)
class Moment:
    """Something that happened, in seconds since the command."""

    at: float
    label: str


@dataclass(frozen=True)
class Timeline:
    """A run from the command to the last file collected.

    Attributes:
        epochs: the ends of the epochs; empty where they are too many to be drawn.
        retries: the moments at which the job was started anew.
    """

    segments: tuple[Segment, ...]
    epochs: tuple[Moment, ...]
    retries: tuple[Moment, ...]

    @property
    def seconds(self) -> float:
        """The length of the whole."""
        return self.segments[-1].end

    def share(self, seconds: float) -> float:
        """Percent of the whole."""
        return round(100 * seconds / self.seconds, 3)


def timeline_of(manifest: Manifest, metrics: Sequence[Metric]) -> Timeline | None:
    """The time line of a run; None when nothing is known but its start.

    The metrics have the first node's clock, and the rest the control node's. A clock that is off
    may shorten a segment but never turns one around.

    Args:
        metrics: the lines of all its attempts.
    """
    began = manifest.started_at
    finished = manifest.launch.finished_at
    attempts = attempts_of(metrics)
    last = metrics[-1].time if metrics else began
    whole = max(last if finished is None else finished, began) - began
    if whole <= 0:
        return None

    def since(metric: Metric) -> float:
        return min(max(metric.time - began, 0.0), whole)

    segments: list[Segment] = []

    def add(kind: str, label: str, end: float) -> None:
        begin = segments[-1].end if segments else 0.0
        if end > begin:
            segments.append(Segment(kind, label, begin, end))

    retries = []
    for number, attempt in enumerate(attempts):
        if number:
            add("ready", "starting again", since(attempt[0]))
            retries.append(
                Moment(since(attempt[0]), f"retry {number}, from step {resumed_at(attempt):,}")
            )
        else:
            add("ready", "getting ready", since(attempt[0]))
        add("training", "training and evaluation", since(attempt[-1]))
    add("collecting" if attempts else "ready", "collecting" if attempts else "getting ready", whole)
    epochs = [
        Moment(since(metric), f"epoch {metric.epoch}") for metric in of_event(metrics, "epoch")
    ]
    return Timeline(
        tuple(segments),
        tuple(epochs) if len(epochs) <= MOST_EPOCHS else (),
        tuple(retries),
    )
