"""Folders of runs: their ids, and finding, making and claiming one."""

import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from yard.core.errors import RequestError
from yard.core.files import read_object
from yard.core.room import full_disk_told
from yard.request.job import Job

# See `run_id_of`.
RUN_ID = re.compile(r"\d{8}T\d{6}Z_[\w.-]+")
# A file in the run directory: the user has asked for the end. A file and no entry of the manifest,
# because the process that follows the run may write that while another one stops it.
STOP_MARK = "stop_requested"
# Why the report could not be drawn; not there when it could.
REPORT_ERROR = "report-error.log"
# Where the records of attempts go that failed and were followed by another.
ATTEMPTS = "attempts"
# How often a command tries to become the one that follows a run.
PATIENCE = 5
# What a program of the user's own wrote: where it was told to, and into its working directory.
OUTPUTS = ("outputs", "workdir")


def run_id_of(job: Job, moment: float) -> str:
    """The id: `<UTC time>_<label of the job>`; `moment` is its start, in Unix seconds."""
    stamp = datetime.fromtimestamp(moment, UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{stamp}_{job.label}"


def create_run(runs: Path, job: Job) -> Path:
    """Make a run directory and point `latest` at it.

    Two launches within one second would have the same id: the second waits for its own.
    """
    runs.mkdir(exist_ok=True)
    while True:
        run = runs / run_id_of(job, time.time())
        try:
            run.mkdir()
        except FileExistsError:
            time.sleep(0.2)
            continue
        break
    _point_latest_at(run)
    return run


def adopt_run(runs: Path, run_id: str) -> Path:
    """Make the directory of a run that was begun elsewhere, and point `latest` at it.

    Raises:
        RequestError: the id is none.
    """
    if not RUN_ID.fullmatch(run_id):
        raise RequestError(f"run {run_id!r}: is not the id of a run")
    runs.mkdir(exist_ok=True)
    run = runs / run_id
    run.mkdir(exist_ok=True)
    _point_latest_at(run)
    return run


def _point_latest_at(run: Path) -> None:
    link = run.parent / f".latest.{os.getpid()}"
    link.symlink_to(run.name)
    link.replace(run.parent / "latest")


def remove_run(run: Path) -> None:
    """Take back a run that came to nothing; `latest` points at the newest of the others."""
    shutil.rmtree(run)
    others = list_runs(run.parent)
    (run.parent / "latest").unlink(missing_ok=True)
    if others:
        _point_latest_at(others[-1])


@contextmanager
def followed(run: Path) -> Iterator[None]:
    """Be the one process that follows a run and writes its records; a killed one gives that back.

    Raises:
        RequestError: another one does.
        NoRoomError: the control node's disk is full; the message says how to go on.
    """
    directory = os.open(run, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # A process that only asks whether the run is followed has the lock for a moment.
        for patience in reversed(range(PATIENCE)):
            try:
                fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if not patience:
                    raise RequestError(
                        f"another command follows {run.name}: make logs RUN={run.name} FOLLOW=1 "
                        f"shows what it prints, make stop RUN={run.name} ends it"
                    ) from error
                time.sleep(0.02)
        with full_disk_told([run], lambda: way_on(run)):
            yield
    finally:
        os.close(directory)


def way_on(run: Path) -> list[str]:
    """What becomes of a run, or a measurement, whose process could write no more."""
    name = run.name
    if (run / "summary.json").exists():
        return [f"{name} is over and summed up. Make room, then: make report RUN={name}"]
    goes_on = f"What {name} has started on the nodes goes on there. Make room, then:"
    ways = [f"    make stop RUN={name}     ends it and collects its files"]
    if (run / "manifest.json").exists():
        ways.insert(0, f"    make attach RUN={name}   follows it to its end, and sums it up")
    return [goes_on, *ways]


def is_followed(run: Path) -> bool:
    """Whether a living process follows a run."""
    try:
        directory = os.open(run, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(directory, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(directory)
    return False


def find_run(runs: Path, name: str) -> Path:
    """Return the run directory for an id, a part of just one, a name, a path, or `latest`.

    A name is that of NAME=, or a short one such as `vit-7`.

    Raises:
        RequestError: there is none, or more than one.
    """
    all_runs = list_runs(runs)
    # A path as the screen shows it, and as shells complete it.
    name = Path(name).name if "/" in name else name
    if name == "latest":
        if all_runs:
            return all_runs[-1]
        raise RequestError("there are no runs yet")
    if not any(run.name == name for run in all_runs):
        manifests = {run: read_object(run / "manifest.json") for run in all_runs}
        called = [run for run, about in manifests.items() if about.get("name") == name]
        called = called or [
            run
            for run, about in manifests.items()
            if name and short_name(about.get("configuration") or {}, about.get("number")) == name
        ]
        if len(called) == 1:
            return called[0]
        if called:
            raise RequestError(f"run {name!r}: that is more than one:", *_names(called))
    return pick(all_runs, name)


def short_name(configuration: Mapping[str, Any], number: Any) -> str:
    """What a run is called by its number, such as `vit-7`; "" where it has none."""
    return f"{configuration.get('model')}-{number}" if number else ""


def pick(folders: list[Path], name: str) -> Path:
    """Return the one directory of the name, or whose name alone begins so or has it in it.

    Raises:
        RequestError: there is none, or more than one.
    """
    matches = [run for run in folders if run.name.startswith(name)] if name else []
    matches = matches or [run for run in folders if name and name in run.name]
    exact = [run for run in matches if run.name == name]
    if len(exact or matches) == 1:
        return (exact or matches)[0]
    if matches:
        raise RequestError(f"run {name!r}: that is more than one:", *_names(matches))
    if not folders:
        raise RequestError(f"run {name!r}: there are no runs yet")
    raise RequestError(f"run {name!r}: unknown; the newest are", *_names(folders))


def list_runs(runs: Path) -> list[Path]:
    """All run directories, oldest first."""
    if not runs.is_dir():
        return []
    return sorted(
        path.parent for path in runs.glob("*/manifest.json") if not path.parent.is_symlink()
    )


def count_attempts(run: Path) -> int:
    """How often a run has been launched: the attempts that failed, and the one that counts."""
    return 1 + len(list((run / ATTEMPTS).glob("*")))


def _names(runs: list[Path]) -> list[str]:
    return [f"    {run.name}" for run in runs[-10:]]
