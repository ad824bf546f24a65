"""What of a user's project a run keeps."""

from pathlib import Path
from typing import Any

from yard.code.git import difference
from yard.code.snapshot import FOLDER, take_snapshot
from yard.core.errors import RequestError
from yard.operations.packages import LOCK, Packages
from yard.request.own_code import ProjectRun
from yard.runs.folder import remove_run


def keep_code(run: Path, job: ProjectRun, packages: Packages | None) -> dict[str, Any]:
    """Copy a project into its run, and which packages it has; returns what the manifest says.

    Raises:
        RequestError: a file changed meanwhile; the run is gone again.
    """
    try:
        snapshot = take_snapshot(job.code.files, run / FOLDER)
    except (OSError, RequestError):  # half of it would only fill a full disk
        remove_run(run)
        raise
    if job.code.git is not None and job.code.git["dirty"]:
        (run / f"{FOLDER}.diff").write_bytes(difference(job.code.files.folder))
    if packages is not None:
        (run / LOCK).write_text(packages.lock, encoding="utf-8")
    return {**job.record(snapshot), "packages": packages.record() if packages else None}
