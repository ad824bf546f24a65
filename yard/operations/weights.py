"""The weights that a training begins from: a run's, or a file's."""

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from yard.core.errors import RequestError
from yard.core.project import Project
from yard.request.training import TrainRequest
from yard.runs.folder import list_runs
from yard.runs.measurements import find_trained

# What the name of a file says of its form; see trainer/export.py.
SUFFIXES = (".pt", ".pth", ".safetensors")


def find_weights(project: Project, request: TrainRequest) -> dict[str, Any]:
    """The file that a training begins from and its checksum, as fields of it; else nothing.

    Raises:
        RequestError: there is no such run or file, or it cannot serve.
    """
    typed = request.weights
    if typed is None:
        return {}
    if request.resume is not None:
        raise RequestError(
            "WEIGHTS= and RESUME=: a run that goes on has its parameters; give one of them"
        )
    path = Path(typed).expanduser().absolute()
    if not path.is_file():
        if path.suffix in SUFFIXES or not list_runs(project.runs):
            raise RequestError(f"WEIGHTS={typed}: there is no such file on this machine")
        path = find_trained(project, typed) / "checkpoints" / "best.pt"
        if not path.is_file():
            raise RequestError(
                f"WEIGHTS={typed}: {project.shown(path)}: the run left no such checkpoint"
            )
    if not path.is_file() or path.suffix not in SUFFIXES:
        raise RequestError(
            f"WEIGHTS={typed}: {path.name} must be a file that ends in {', '.join(SUFFIXES)}"
        )
    # What best.pt is a link to is another file tomorrow.
    path = path.resolve()
    try:
        about = path.stat()
        digest = _digest(path, about.st_ino, about.st_size, about.st_mtime_ns)
    except OSError as error:
        raise RequestError(f"WEIGHTS={typed}: cannot be read: {error.strerror}") from error
    return {"weights": str(path), "weights_sha256": digest}


@lru_cache(maxsize=1)
def _digest(path: Path, *_state: int) -> str:
    """The SHA-256 of a file, read once for all trainings of a series, if it stays as it is."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
