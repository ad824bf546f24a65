"""Verifications and benchmarks: they run on the nodes like a training, and are stopped like one."""

import time
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape

from yard.context import Context
from yard.errors import Exit, Interrupted, RequestError
from yard.files import read_json, write_json
from yard.inventory import Inventory
from yard.progress import make_progress
from yard.project import Project
from yard.run import STOP_MARK, find_run, is_followed, pick
from yard.stop import stop_on_nodes

# What was asked for, in the directory of a job.
REQUEST = "request.json"
# How often a stop looks whether the job has ended, in seconds.
POLL = 0.2


@dataclass(frozen=True)
class Kind:
    """A kind of job.

    Args:
        word: what people call it.
        prefix: how its ids begin.
        folder: where the directories of such jobs lie in a checkout.
        result: the file in it that is there once it has ended well.
    """

    word: str
    prefix: str
    folder: str
    result: str

    def directories(self, project: Project) -> list[Path]:
        """The directories of all jobs of this kind, the oldest first."""
        found = (project.root / self.folder).glob(f"{self.prefix}*")
        return sorted(path for path in found if path.is_dir())


VERIFICATION = Kind("verification of the cluster", "verify-", "runs", "verdict.json")
BENCHMARK = Kind("benchmark", "bench-", "bench", "bench.json")


def open_job(project: Project, kind: Kind, inventory: Inventory, asked: dict[str, object]) -> Path:
    """Make the directory of a job and return it; its name is the job's id."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    directory = project.root / kind.folder / f"{kind.prefix}{stamp}"
    request = {"inventory": str(inventory.path.absolute()), **asked}
    write_json(directory / REQUEST, request)
    return directory


def find_job(project: Project, name: str) -> tuple[Kind, Path] | None:
    """Return the job for its id, or the beginning of just one; None where it is a training's.

    Raises:
        RequestError: there is none, or more than one.
    """
    for kind in (VERIFICATION, BENCHMARK):
        if name.startswith(kind.prefix):
            return kind, pick(kind.directories(project), name)
    return None


def find_training(project: Project, name: str) -> Path:
    """Return the run directory for the id of a training, the beginning of just one, or `latest`.

    Raises:
        RequestError: there is none, or more than one, or it is no training.
    """
    found = find_job(project, name)
    if found is None:
        return find_run(project.runs, name)
    kind, directory = found
    shown = project.shown(directory)
    raise RequestError(
        [
            f"{directory.name} is a {kind.word}, no training;",
            f"make stop RUN={directory.name} ends it, and {shown}/ has its files",
        ]
    )


def stop_job(context: Context, kind: Kind, directory: Path) -> Exit:
    """End a job from another terminal, or what is left of one whose `yard` was killed.

    Raises:
        Interrupted: the user did not wait for its end.
    """
    console, mark = context.console, directory / STOP_MARK
    shown = escape(context.project.shown(directory))
    if not mark.exists() and not is_followed(directory) and (directory / kind.result).exists():
        result = f"{shown}/{kind.result}"
        console.print(f"{directory.name} had ended before; see {result}", soft_wrap=True)
        return Exit.DONE
    mark.touch()
    with make_progress(console) as progress:
        progress.phase("Waiting for what it does to end")
        # Only when its playbook has ended, nothing more is started on the nodes.
        while is_followed(directory):
            if context.interrupts.requested:
                raise Interrupted(f"{directory.name} is asked to stop, and does so by itself")
            time.sleep(POLL)
    asked = read_json(directory / REQUEST) or {}
    outcome = stop_on_nodes(context, directory, Path(asked.get("inventory", context.inventory)))
    console.print(f"{directory.name} has ended; {shown} has what was done", soft_wrap=True)
    return Exit.DONE if outcome.ok else Exit.FAILED
