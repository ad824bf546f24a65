"""What a list says of a run, whatever state its files are in."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yard.core.errors import OtherVersionError
from yard.core.files import read_object
from yard.runs.manifest import iso, read_manifest
from yard.runs.summary import Summary, read_summary

UNFINISHED = "unfinished"
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Overview:
    """One run of a list.

    Attributes:
        name: what the user called it; None where nothing was said.
        status: of the summary; `unfinished` without one: the run is still going, or its `yard` was
            killed; `unreadable` when a file is damaged or of another version of yard.
        configuration: what was trained; empty where it cannot be read.
        started_at: Unix seconds.
        summary: None where there is none that can be read.
    """

    run_id: str
    name: str | None
    status: str
    configuration: Mapping[str, Any]
    started_at: float | None
    summary: Summary | None


# What a list of runs for programs has of each, in this order.
OF_CONFIGURATION = (
    *("model", "dataset", "nodes", "procs_per_node", "world_size", "epochs", "batch_per_rank"),
    *("learning_rate", "train_images", "seed", "optimizer", "engine", "precision"),
)
OF_SUMMARY = (
    *("test_accuracy", "best_test_accuracy", "best_epoch", "validation_accuracy", "final_loss"),
    *("images_per_second", "seconds_total"),
)


def listed_run(run: Path) -> dict[str, Any]:
    """One run of a list, for programs; what is not known is None."""
    overview = overview_of(run)
    about = configuration_of(run, overview.configuration)
    return {
        "run_id": overview.run_id,
        "name": overview.name,
        "status": overview.status,
        "started_at": None if overview.started_at is None else iso(overview.started_at),
        **{name: about.get(name) for name in OF_CONFIGURATION},
        **{name: getattr(overview.summary, name, None) for name in OF_SUMMARY},
    }


def configuration_of(run: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What was trained, with what the trainer was told where that has come home.

    Args:
        run: the run's directory.
        asked: the configuration in its manifest.
    """
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
        status = UNFINISHED if summary is None else summary.status
    except OtherVersionError:
        summary, status = None, UNREADABLE
    return Overview(
        run.name, manifest.name, status, manifest.configuration, manifest.started_at, summary
    )
