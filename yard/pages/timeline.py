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


@dataclass(frozen=True)
class Spell:
    """One attempt of a run at work, in Unix seconds of its node; `label` names its beginning."""

    begin: float
    end: float
    label: str = ""


def timeline_of(manifest: Manifest, metrics: Sequence[Metric]) -> Timeline | None:
    """The time line of a training; None when nothing is known but its start.

    Args:
        metrics: the lines of all its attempts.
    """
    spells = [
        Spell(attempt[0].time, attempt[-1].time, f"from step {resumed_at(attempt):,}")
        for attempt in attempts_of(metrics)
    ]
    ends = [(metric.time, f"epoch {metric.epoch}") for metric in of_event(metrics, "epoch")]
    last = metrics[-1].time if metrics else None
    return _timeline(manifest, spells, "training and evaluation", ends, last)


def program_timeline(manifest: Manifest, spells: Sequence[tuple[float, float]]) -> Timeline | None:
    """The time line of a program of the user's own; None when nothing is known but its start.

    Args:
        spells: from when to when each attempt's ranks ran, Unix seconds.
    """
    attempts = [Spell(begin, end) for begin, end in spells]
    return _timeline(manifest, attempts, "running", [], spells[-1][1] if spells else None)


def _timeline(
    manifest: Manifest,
    spells: Sequence[Spell],
    doing: str,
    epochs: Sequence[tuple[float, str]],
    last: float | None,
) -> Timeline | None:
    """A time line of spells at work.

    They have a node's clock, and the rest the control node's. A clock that is off may shorten a
    segment but never turns one around.
    """
    began = manifest.started_at
    finished = manifest.launch.finished_at
    known_last = began if last is None else last
    whole = max(known_last if finished is None else finished, began) - began
    if whole <= 0:
        return None

    def since(moment: float) -> float:
        return min(max(moment - began, 0.0), whole)

    segments: list[Segment] = []

    def add(kind: str, label: str, end: float) -> None:
        begin = segments[-1].end if segments else 0.0
        if end > begin:
            segments.append(Segment(kind, label, begin, end))

    retries = []
    for number, spell in enumerate(spells):
        add("ready", "starting again" if number else "getting ready", since(spell.begin))
        if number:
            label = ", ".join(filter(None, (f"retry {number}", spell.label)))
            retries.append(Moment(since(spell.begin), label))
        add("training", doing, since(spell.end))
    add("collecting" if spells else "ready", "collecting" if spells else "getting ready", whole)
    ends = [Moment(since(moment), label) for moment, label in epochs]
    return Timeline(
        tuple(segments), tuple(ends) if len(ends) <= MOST_EPOCHS else (), tuple(retries)
    )
