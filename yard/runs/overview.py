"""What a list says of a run, whatever state its files are in."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from yard.core.errors import OtherVersionError
from yard.core.files import read_object, room_of
from yard.core.words import percent, short_number
from yard.runs.folder import is_followed
from yard.runs.labels import Labels, read_labels
from yard.runs.manifest import Manifest, iso, read_manifest
from yard.runs.results import arguments_of
from yard.runs.summary import RUNNING, Summary, read_summary

# States of a run without a summary: a command follows it on its nodes, or waits for nodes; or the
# command is gone.
WAITING, UNFINISHED = "waiting", "unfinished"
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Overview:
    """One run of a list.

    Attributes:
        name: what the user called it; None where nothing was said.
        status: of the summary; without one `running` or `waiting` (for nodes) where a command
            follows it, else `unfinished`; `unreadable` when a file is damaged or of another version
            of yard.
        configuration: what was trained; empty where it cannot be read.
        started_at: Unix seconds.
        summary: None where there is none that can be read.
        owner: who began it; None where that was not noted.
        arguments: what was typed behind `make train`.
        short: what it is called by its number, such as `vit-7`; "" where it has none.
    """

    run_id: str
    name: str | None
    status: str
    configuration: Mapping[str, Any]
    started_at: float | None
    summary: Summary | None
    owner: str | None = None
    arguments: str = ""
    labels: Labels = field(default_factory=Labels)
    short: str = ""

    @property
    def cause(self) -> str:
        """Why it failed; "" where it did not."""
        diagnosis = self.summary.diagnosis if self.summary else None
        return "" if diagnosis is None else diagnosis.cause

    @property
    def accuracy(self) -> str:
        """On the test set; of a run that did not get there on the validation split; "" of none."""
        if self.summary is None:
            return ""
        if self.summary.test_accuracy is not None:
            return percent(self.summary.test_accuracy)
        validation = self.summary.validation_accuracy
        return "" if validation is None else f"{percent(validation)} val"

    @property
    def loss(self) -> str:
        """The last training loss, or what a program of the user's own calls so; "" of none."""
        if self.summary is None:
            return ""
        loss = self.summary.final_loss
        loss = self.summary.readings.get("loss") if loss is None else loss
        return "" if loss is None else short_number(loss)

    @property
    def words(self) -> str:
        """All that it is found by, in small letters."""
        summary = self.summary
        hosts = summary.hosts if summary else ()
        parts = (
            self.run_id,
            self.name,
            self.short,
            self.status,
            self.owner,
            self.arguments,
            self.cause,
        )
        return " ".join(
            map(str, filter(None, (*parts, *self.labels.tags, self.labels.note, *hosts)))
        ).lower()


def matching(overviews: Iterable[Overview], find: str) -> list[Overview]:
    """Those runs that have every one of the words in `find` somewhere."""
    wanted = find.lower().split()
    return [run for run in overviews if all(word in run.words for word in wanted)]


# What a list of runs for programs has of each, in this order.
OF_CONFIGURATION = (
    *("model", "dataset", "nodes", "procs_per_node", "world_size", "epochs", "batch_per_rank"),
    *("learning_rate", "train_images", "seed", "optimizer", "engine", "precision"),
)
OF_SUMMARY = (
    *("test_accuracy", "best_test_accuracy", "best_epoch", "validation_accuracy", "final_loss"),
    *("images_per_second", "seconds_total"),
)


def listed_run(run: Path, overview: Overview) -> dict[str, Any]:
    """One run of a list, for programs; what is not known is None."""
    about = configuration_of(run, overview.configuration)
    return {
        "run_id": overview.run_id,
        "name": overview.name,
        "short": overview.short or None,
        "status": overview.status,
        "started_at": None if overview.started_at is None else iso(overview.started_at),
        **{name: about.get(name) for name in OF_CONFIGURATION},
        **{name: getattr(overview.summary, name, None) for name in OF_SUMMARY},
        "cause": overview.cause or None,
        "owner": overview.owner,
        "arguments": overview.arguments,
        "tags": " ".join(overview.labels.tags),
        "note": overview.labels.note,
        "bytes": room_of(run, set()),
    }


def configuration_of(run: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What was trained, with what the trainer was told where that has come home."""
    return {**asked, **(asked.get("options") or {}), **read_object(run / "config.json")}


def overview_of(run: Path) -> Overview:
    """Read what a list says of a run. One run that cannot be read must not hide the others."""
    try:
        manifest = read_manifest(run)
    except OtherVersionError:
        manifest = None
    if manifest is None:
        return Overview(run.name, None, UNREADABLE, {}, None, None)
    try:
        summary = read_summary(run)
        status = _unfinished(run, manifest) if summary is None else summary.status
    except OtherVersionError:
        summary, status = None, UNREADABLE
    return Overview(
        run.name,
        manifest.name,
        status,
        manifest.configuration,
        manifest.started_at,
        summary,
        manifest.owner,
        arguments_of(manifest.request),
        read_labels(run),
        manifest.short,
    )


def _unfinished(run: Path, manifest: Manifest) -> str:
    if not is_followed(run):
        return UNFINISHED
    return RUNNING if manifest.hosts else WAITING
