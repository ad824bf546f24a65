"""`manifest.json`: what was asked, what ran it, and how the playbook ended."""

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from yard import __version__
from yard.code.git import git_revision
from yard.core.errors import OtherVersionError
from yard.core.files import in_form, read_json, read_object, write_json
from yard.core.project import Project
from yard.plays.contract import owner
from yard.plays.events import TaskFailure
from yard.plays.inventory import Inventory
from yard.request.job import Job, Request
from yard.runs.folder import short_name


@dataclass(frozen=True)
class Launch:
    """How the launch went, as far as only the control node knows; times in Unix seconds.

    `phase` is one of `yard.plays.contract`; for the first step see `summary.first_step_time`.
    """

    playbook: str = "running"
    phase: str = ""
    failures: tuple[TaskFailure, ...] = ()
    first_step_after: float | None = None
    first_step_before: float | None = None
    finished_at: float | None = None


# What building a record from a document of another form raises
NOT_OURS = (AttributeError, KeyError, TypeError, ValueError)

LAUNCH_TIMES = ("first_step_after", "first_step_before", "finished_at")


@dataclass(frozen=True)
class Manifest:
    """The record of a run's making. Holds no environment and no secret.

    schemas/manifest.schema.json says what each field is; `started_at` is in Unix seconds here.
    """

    run_id: str
    name: str | None
    started_at: float
    request: Mapping[str, Any]
    configuration: Mapping[str, Any]
    inventory: str
    inventory_path: str
    hosts: tuple[str, ...] = ()
    gpus: Mapping[str, list[int]] = field(default_factory=dict)
    code: Mapping[str, Any] | None = None
    project: Mapping[str, Any] | None = None
    versions: Mapping[str, Any] = field(default_factory=dict)
    image: Mapping[str, str] | None = None
    memory_limits: Mapping[str, int] = field(default_factory=dict)
    launch: Launch = Launch()
    home: str | None = None
    owner: str | None = None
    number: int | None = None

    @property
    def short(self) -> str:
        """What the run is called by its number, such as `vit-7`; "" where it has none."""
        return short_name(self.configuration, self.number)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Manifest":
        """Build one from the decoded file.

        Raises:
            TypeError: a key is missing or unknown.
        """
        launch = document["launch"]
        times = {name: from_iso(launch[name]) for name in LAUNCH_TIMES}
        started = {"started_at": from_iso(document["started_at"])}
        manifest: Manifest = in_form(cls, {**document, **started, "launch": {**launch, **times}})
        return manifest

    def to_json(self) -> dict[str, Any]:
        """The document as written, times in ISO 8601, UTC."""
        document = asdict(self)
        document["started_at"] = iso(self.started_at)
        for name in LAUNCH_TIMES:
            document["launch"][name] = iso(getattr(self.launch, name))
        return document

    def with_launch(self, **changes: Any) -> "Manifest":
        """The manifest with some of its launch replaced."""
        return replace(self, launch=replace(self.launch, **changes))


def new_manifest(
    project: Project,
    inventory: Inventory,
    request: Request,
    job: Job,
    run_id: str,
    started_at: float,
    own_code: Mapping[str, Any] | None,
) -> Manifest:
    """The manifest of a run that is about to start."""
    return Manifest(
        run_id=run_id,
        name=request.name,
        started_at=started_at,
        request=request.to_json(),
        configuration={**job.to_json(), "runtime": inventory.runtime},
        inventory=project.shown(inventory.path),
        inventory_path=str(inventory.path),
        code=git_revision(project.root),
        versions={
            "yard": __version__,
            "python": platform.python_version(),
            "ansible-core": version("ansible-core"),
            "ansible-runner": version("ansible-runner"),
        },
        project=own_code,
        owner=owner(),
        number=_next_number(project.runs, job.to_json().get("model")),
    )


def _next_number(runs: Path, model: Any) -> int:
    """One more than any run of the model has; that of a run that was deleted last comes again."""
    there = [read_object(path) for path in runs.glob("*/manifest.json")]
    of_model = [one for one in there if (one.get("configuration") or {}).get("model") == model]
    return 1 + max((one.get("number") or 0 for one in of_model), default=0)


def read_manifest(run: Path) -> Manifest | None:
    """Read the manifest of a run directory; None where it has none, or it is not JSON.

    Raises:
        OtherVersionError: a newer version wrote it, or it is damaged.
    """
    document = read_json(run / "manifest.json")
    if document is None:
        return None
    try:
        return Manifest.from_json(document)
    except NOT_OURS as error:
        raise other_version(run / "manifest.json", error) from error


def other_version(file: Path, error: Exception) -> OtherVersionError:
    """What to say of a file of a run that this version cannot read."""
    run, manifest = file.parent, read_object(file.parent / "manifest.json")
    versions, code = manifest.get("versions"), manifest.get("code")
    made_by = versions.get("yard") if isinstance(versions, dict) else None
    revision = code.get("revision") if isinstance(code, dict) else None
    by = f"Trainyard {made_by}" if made_by else "another version"
    reader = f"a checkout of {revision}" if revision else "a newer checkout"
    return OtherVersionError(
        f"{run.name}: {file.name} cannot be read by Trainyard {__version__} ({error}). A newer "
        "one wrote it, or it is damaged. Earlier ones can be read.",
        f"    {by} made this run: read it with {reader}, or bring this one up to date: git pull",
    )


def write_manifest(run: Path, manifest: Manifest) -> None:
    """Write the manifest into its run directory."""
    write_json(run / "manifest.json", manifest.to_json())


def iso(moment: float | None) -> str | None:
    """Unix seconds as ISO 8601 in UTC, to the millisecond."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")


def from_iso(text: str | None) -> float | None:
    """The inverse of `iso`."""
    return None if text is None else datetime.fromisoformat(text).timestamp()
