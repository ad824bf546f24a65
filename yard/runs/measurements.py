"""Verifications and benchmarks: like trainings they run on the nodes, in a folder each."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yard.core.errors import RequestError
from yard.core.files import read_object, write_json
from yard.core.project import Project
from yard.plays.inventory import Inventory
from yard.runs.folder import find_run, pick

# What was asked for, in the folder of a measurement.
REQUEST = "request.json"


@dataclass(frozen=True)
class Kind:
    """A kind of measurement.

    Args:
        folder: where the folders of such measurements lie in a checkout.
        result: the file in it that is there once it has ended well.
    """

    word: str
    prefix: str
    folder: str
    result: str

    def directories(self, project: Project) -> list[Path]:
        """The folders of all measurements of this kind, the oldest first."""
        paths = (project.root / self.folder).glob(f"{self.prefix}*")
        return sorted(path for path in paths if path.is_dir())


@dataclass(frozen=True)
class Begun:
    """Where a measurement was begun, and how.

    Attributes:
        runtime: what keeps the ranks apart from the rest of a node; an earlier version did not note
            it.
    """

    inventory: Path
    runtime: object


VERIFICATION = Kind("verification of the cluster", "verify-", "runs", "verdict.json")
BENCHMARK = Kind("benchmark", "bench-", "bench", "bench.json")


def open_measurement(
    project: Project, kind: Kind, inventory: Inventory, request: dict[str, Any]
) -> Path:
    """Make the folder of a measurement and return it; its name is the measurement's id."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    directory = project.root / kind.folder / f"{kind.prefix}{stamp}"
    where = {"inventory": str(inventory.path.absolute()), "runtime": inventory.runtime}
    write_json(directory / REQUEST, {**where, **request})
    return directory


def read_begun(directory: Path) -> Begun | None:
    """Where a measurement was begun; None where its request is gone.

    To be read before files of the nodes come home to the same folder.
    """
    request = read_object(directory / REQUEST)
    inventory = request.get("inventory")
    return Begun(Path(inventory), request.get("runtime")) if isinstance(inventory, str) else None


def find_measurement(project: Project, name: str) -> tuple[Kind, Path] | None:
    """Return the measurement for its id, or the beginning of just one; None for a training's.

    Raises:
        RequestError: there is none, or more than one.
    """
    for kind in (VERIFICATION, BENCHMARK):
        if name.startswith(kind.prefix):
            return kind, pick(kind.directories(project), name)
    return None


def find_training(project: Project, name: str) -> Path:
    """Return the run directory of a training, see `find_run`.

    Raises:
        RequestError: there is none, or more than one, or it is no training.
    """
    measurement = find_measurement(project, name)
    if measurement is None:
        return find_run(project.runs, name)
    kind, directory = measurement
    shown = project.shown(directory)
    raise RequestError(
        f"{directory.name} is a {kind.word}, no training;",
        f"make stop RUN={directory.name} ends it, and {shown}/ has its files",
    )


def find_trained(project: Project, name: str) -> Path:
    """Return the run that has the checkpoints, see `find_training`.

    Of a run in which nodes shared a test set it is the one that they tested: after such a run
    `latest` is still the model that the user works on.

    Raises:
        RequestError: as of `find_training`, or that one is there no more.
    """
    run = find_training(project, name)
    configuration = read_object(run / "manifest.json").get("configuration") or {}
    if not configuration.get("test_only"):
        return run
    trained = project.runs / Path(configuration["weights"]).parents[1].name
    if not trained.is_dir():
        raise RequestError(f"{run.name} tested {trained.name}, which has been deleted")
    return trained
