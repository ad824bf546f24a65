"""What a list says of a run, whatever state its files are in."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yard.core.errors import OtherVersionError
from yard.runs.manifest import read_manifest
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
