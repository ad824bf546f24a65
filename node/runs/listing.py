"""Which runs a node has, since when, and how far they are."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any

from ..engine.containers import containers
from ..engine.docker import EngineError
from .lock import gpus_of, is_live, read
from .untrusted import logs_of, read_lines, read_log

# Of the end of a run's metrics: many lines of the trainer.
METRICS_BYTES = 64 << 10
# Of the end of the log of a program that writes none: a few lines, for its progress bar.
SAID_BYTES = 2000
# In the directory of all runs, which is not the ranks' own.
DRAINED = ".drained"
MOST_REASON = 200
# Who asks for a status waits 5 s for all of it (training_node_status_seconds).
ENGINE_SECONDS = 3.0


def runs_and_trouble(root: str, host: str) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Return the runs of this node, and why they are not known or no others begin: code, values."""
    try:
        runs = runs_of(root, host)
        path, reason = drained_by(root)
    except FileNotFoundError:
        return [], {"code": "no_directory", "values": {"path": root}}
    except EngineError as error:
        return [], {"code": "no_engine", "values": {"message": str(error)}}
    drained = {"code": "drained", "values": {"path": path, "reason": reason}}
    return runs, drained if path else None


def runs_of(root: str, host: str) -> list[dict[str, Any]]:
    """Return every run that holds this node, has a container on it, or has left a directory here.

    Raises:
        EngineError: no engine answers.
    """
    left = left_runs(root)
    states = {
        container["Labels"]["trainyard.run"]: container["State"]
        for container in containers("trainyard.run", ENGINE_SECONDS)
    }
    locks = {lock["run"]: lock for lock in read(root)}
    held = {run for run, lock in locks.items() if is_live(lock)}
    runs = []
    for run in sorted(left | states.keys() | held):
        whose = locks.get(run, {})
        directory = os.path.join(root, run)
        lines = metrics_of(directory)
        alive = states.get(run) == "running" or run in held
        begun = bool(lines) or has_begun(directory)
        runs.append(
            {
                "run": run,
                "state": "ended" if not alive else "running" if begun else "starting",
                "metric": newest_of(lines),
                "earlier": earlier_of(lines),
                "said": "" if lines else said_last(directory),
                "nodes": whose.get("nodes", [host]),
                "gpus": [gpu["index"] for gpu in gpus_of(whose)],
                **{name: whose.get(name) for name in ("owner", "since", "home")},
            }
        )
    return runs


def drained_by(root: str) -> tuple[str, str]:
    """Return the file by which an operator keeps runs off this node, and why; "" for none."""
    path = os.path.join(root, DRAINED)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return path, file.readline(MOST_REASON).strip() or "no reason is given"
    except FileNotFoundError:
        return "", ""
    except OSError as error:
        if not os.path.lexists(path):
            raise
        # A directory, or for root's eyes alone: it is a mark all the same.
        return path, f"its reason cannot be read ({error.strerror})"


def has_begun(directory: str) -> bool:
    """Tell whether a rank of this node has begun: each opens its log before all else."""
    return any(map(is_rank_log, logs_of(directory)))


def is_rank_log(name: str) -> bool:
    """Tell whether a file among the logs is called as that of a rank."""
    return fnmatchcase(name, "rank-*.log")


def metrics_of(directory: str) -> list[str]:
    """Return the lines at the end of a run's metrics; only its first node has any."""
    lines: list[str] = read_lines(directory, "metrics.jsonl", size=METRICS_BYTES)
    return lines


def newest_of(lines: list[str]) -> dict[str, Any] | None:
    """Return the last line, None where a rank wrote something else."""
    return _decoded(lines[-1]) if lines else None


def earlier_of(lines: list[str]) -> dict[str, Any] | None:
    """Return a line that tells, compared with the newest, how fast the run is.

    That is the beginning of its newest attempt, or the first line with a step that is read here.
    """
    steps = [line for text in lines if (line := _decoded(text)) is not None and "step" in line]
    begun = (line for line in reversed(steps) if line.get("event") == "start")
    return next(begun, steps[0] if steps else None)


def said_last(directory: str) -> str:
    """Return the end of the log of rank 0, which is on a run's first node; elsewhere nothing."""
    with suppress(OSError):
        return str(read_log(directory, "rank-0.log", size=SAID_BYTES, since=0)["text"])
    return ""


def left_runs(root: str) -> set[str]:
    """Return the runs that have a directory; what else is kept there has a hidden name."""
    with os.scandir(root) as entries:
        return {entry.name for entry in entries if entry.is_dir() and entry.name[0] != "."}


def _decoded(text: str) -> dict[str, Any] | None:
    with suppress(ValueError, RecursionError):
        line = json.loads(text)
        if isinstance(line, dict):
            # What a rank nests may be too deep for whoever reads on, and says nothing of its pace.
            return {k: v for k, v in line.items() if not isinstance(v, (dict, list))}
    return None
