"""Why a rank ended, as a file: `failures/rank-<r>.json` in the run directory."""

import contextlib
import errno
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer.atomic import write_json
from trainer.errors import TrainerError
from trainer.mounts import OUT_OF_REACH
from trainer.openmpi import world_rank
from trainer.problems import Problem, Scalar

# What docker/trainer/bin/rank sets for every rank: the run directory.
RUN_DIR = "TRAINYARD_RUN_DIR"
FOLDER = "failures"
# Bytes of UTF-8 that the message, and every value, may have: an error may quote a whole tensor.
MESSAGE_BYTES = 16 * 1024


def note_failure(error: Exception) -> None:
    """Write down why this rank ends.

    Nothing is written where mpirun did not start this process, or where the environment names no
    run directory. A disk that takes no file is no second error: the message goes to the log too.
    """
    rank, run_dir = world_rank(), os.environ.get(RUN_DIR)
    if rank is None or not run_dir:
        return
    with contextlib.suppress(OSError):
        document = failure_record(rank, problem_of(error, run_dir))
        write_json(Path(run_dir, FOLDER, f"rank-{rank}.json"), document)


def failure_record(rank: int, problem: Problem) -> dict[str, Any]:
    """What schemas/rank_failure.schema.json describes."""
    return {
        "rank": rank,
        "host": os.uname().nodename,
        "code": problem.code,
        "values": _limited(problem.values),
        "message": _cut(problem.text),
    }


def problem_of(error: Exception, run_dir: str) -> Problem:
    """Return code and values of an error.

    Args:
        run_dir: what a full disk is named by where the error names no file: all that the trainer
            writes is in there.
    """
    if isinstance(error, TrainerError):
        return error.problem
    if isinstance(error, OSError) and error.errno is not None:
        path = error.filename if isinstance(error.filename, str) else None
        if error.errno == errno.ENOSPC:
            return Problem("disk_full", {"path": path or run_dir})
        if isinstance(error, PermissionError) and path is not None:
            return Problem("file_denied", {"path": path})
        # Without a path it is a connection, not a file.
        if error.errno in OUT_OF_REACH and path is not None:
            values = {"path": path, "message": os.strerror(error.errno)}
            return Problem("file_system_gone", values)
    if _is_gpu_out_of_memory(error):
        return Problem("gpu_out_of_memory", {"message": str(error)})
    return Problem("python_error", {"error": type(error).__name__, "message": str(error)})


def _is_gpu_out_of_memory(error: Exception) -> bool:
    """Whether it is torch's error; a rank that has not imported torch cannot have raised it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(error, torch.OutOfMemoryError)


def _limited(values: Mapping[str, Scalar]) -> dict[str, Scalar]:
    return {
        name: _cut(value) if isinstance(value, str) else value for name, value in values.items()
    }


def _cut(text: str) -> str:
    """The beginning of a text, up to `MESSAGE_BYTES`; what is no UTF-8 is replaced."""
    return text.encode(errors="replace")[:MESSAGE_BYTES].decode(errors="ignore")
