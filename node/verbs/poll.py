"""The verb `poll`: where a run stands."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from contextlib import suppress
from typing import Any

from ..engine.containers import EngineError, is_running
from ..forms import LocalPath
from ..runs.collect import (
    CHECKPOINTS,
    DEPTH,
    WORKDIR,
    checkpoint_pattern,
    leads_to_match,
)
from ..runs.directory import RunDirectory
from ..runs.lock import container_of
from ..runs.untrusted import is_there, open_directory, read_lines, read_log, read_rank_file

# Of the metrics the end is enough: a follower has had the rest.
METRICS_BYTES = 4 << 20
STATUS_BYTES = 16
# Of the silences, whose number only a rank can make large, and what a line of them has.
SILENCES_BYTES = 16 << 10
MOST_SILENCES = 16
SILENCE = {"time", "seconds"}
# Of what is new in the log of rank 0: far more than people read.
OUTPUT_BYTES = 256 << 10
LOG = "rank-0.log"
# The status a shell gives to a command it could not run to its end.
CONTAINER_GONE = 128
# What a line of the trainer has, by its event; another program may call its events the same.
TRAINING = {
    *("event", "time", "step", "steps", "epoch", "epochs"),
    *("loss", "accuracy", "images_per_second", "lr"),
}
TRAINER_KEYS = {
    **dict.fromkeys(("start", "step", "epoch", "end"), TRAINING),
    "bench": {"event", "what", "done", "parts", "time"},
}
# Of other programs' lines: what says where a line belongs, and how much of the rest is told.
PLACE = ("time", "step", "steps", "epoch", "epochs")
MOST_KEYS = 64
KEY_CHARACTERS = 64
# Looks at a file are cheap, questions to the engine are not; in seconds.
LOOK, ASK = 0.2, 2.0
# Seconds without a change after which a checkpoint counts as whole; and of how many files it is
# looked when they were written.
SETTLED = 3.0
MOST_FILES = 10_000
# Share of a run's age that a follower waits for the next look.
PACE = 1 / 30


def read_metrics(directory: str) -> list[dict[str, Any]]:
    """Return the lines that a follower shows, in the order of the file.

    Of the trainer's steps that is the newest. Of lines of another program those that have the
    newest value of a key come first. What is neither is left out: a rank can write anything.
    """
    records: list[dict[str, Any]] = []
    from_program: list[dict[str, float]] = []
    for line in read_lines(directory, "metrics.jsonl", size=METRICS_BYTES):
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
            if is_trainers(record):
                records.append(record)
            elif isinstance(record, dict):
                from_program.append(numbers_of(record))
    steps = [record for record in records if record["event"] == "step"]
    shown = [record for record in records if record["event"] != "step" or record is steps[-1]]
    return [*newest_of(from_program), *shown]


def is_trainers(record: Any) -> bool:
    """Tell whether a decoded line has the form of the trainer's."""
    event = record.get("event") if isinstance(record, dict) else None
    return isinstance(event, str) and TRAINER_KEYS.get(event, {None}) <= record.keys()


def numbers_of(record: dict[str, Any]) -> dict[str, float]:
    """Return the finite numbers of a line whose keys can be shown."""
    return {
        key: value
        for key, value in record.items()
        if isinstance(value, (int, float))
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max  # which no infinity is, and nothing that is no number
        and 0 < len(key) <= KEY_CHARACTERS
        and key.isprintable()
    }


def newest_of(lines: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return the lines with the newest value of each key, without what a newer one has as well.

    Each keeps its step and epoch: an accuracy may be older than the newest loss.
    """
    # In order of appearance, so that every poll has the same ones; the loss is never left out.
    keys = dict.fromkeys(("loss", *PLACE))
    for line in lines:
        keys.update(dict.fromkeys(line))
    missing = set(list(keys)[: MOST_KEYS + len(PLACE)])
    kept = []
    for line in reversed(lines):
        new = missing & line.keys()
        missing -= new
        if new:
            kept.append({key: line[key] for key in line if key in new or key in PLACE})
    return kept[::-1]


def read_silences(directory: str) -> list[dict[str, float]]:
    """Return the newest silences that the launcher has noted; a rank may have written any."""
    silences = []
    for line in read_lines(directory, "silences.jsonl", size=SILENCES_BYTES):
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
            numbers = numbers_of(record) if isinstance(record, dict) else {}
            if numbers.keys() >= SILENCE:
                silences.append({key: numbers[key] for key in sorted(SILENCE)})
    return silences[-MOST_SILENCES:]


def newest_checkpoint(directory: str) -> float:
    """Return when the newest whole file among the checkpoints was written, Unix seconds, or 0.

    Those in its working directory that a project calls checkpoints count too.
    """
    limit = time.time() - SETTLED
    pattern = checkpoint_pattern(RunDirectory(*os.path.split(directory)))
    newest = newest_file(directory, CHECKPOINTS, limit)
    return max(newest, newest_file(directory, WORKDIR, limit, pattern)) if pattern else newest


def newest_file(directory: str, place: str, limit: float, pattern: tuple[str, ...] = ()) -> float:
    """Return when the newest file of a kind in one of the ranks' folders was written, or 0.

    No deeper than files are brought home from: for every level fwalk holds a descriptor, and older
    Pythons a call, and a rank can make thousands.

    Args:
        limit: what was written later does not count, Unix seconds.
        pattern: what the names of its path match, see `leads_to_match`.
    """
    try:
        top = open_directory(directory, "work", place)
    except OSError:
        return 0.0
    newest, looked_at = 0.0, 0
    try:
        for above, folders, names, folder in os.fwalk(dir_fd=top):
            inner = tuple(above.split("/")[1:])  # fwalk begins with "."
            is_deep = len(inner) + 1 >= DEPTH
            folders[:] = [
                name for name in folders if not is_deep and leads_to_match((*inner, name), pattern)
            ]
            for name in names:
                if len(inner) + 1 < len(pattern) or not leads_to_match((*inner, name), pattern):
                    continue
                looked_at += 1
                if looked_at > MOST_FILES:
                    return newest
                if name.startswith("."):
                    continue  # what is being written begins with a dot
                with suppress(OSError):
                    about = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    if stat.S_ISREG(about.st_mode) and about.st_mtime <= limit:
                        newest = max(newest, about.st_mtime)
    finally:
        os.close(top)
    return newest


def noted_status(directory: str) -> int | None:
    """Return the status that the launcher noted, None while it runs, or where it is no number."""
    try:
        _, content = read_rank_file(directory, "exit_status", size=STATUS_BYTES)
        return int(content)
    except (OSError, ValueError):
        return None


def is_gone(container: str) -> bool:
    """Tell whether the container has ended."""
    try:
        return not is_running(container)
    except EngineError:
        # The engine may be restarting under running containers (live-restore): ask again later.
        return False


def wait_for_end(directory: str, container: str, seconds: float) -> int | None:
    """Return the run's status as soon as it has one.

    Returns:
        None after `seconds`, and when rank 0 begins or reports its first step.
    """
    awaited = [
        parts for parts in (("metrics.jsonl",), ("logs", LOG)) if not is_there(directory, *parts)
    ]
    deadline = time.monotonic() + seconds
    asked_at = float("-inf")
    while True:
        status = noted_status(directory)
        if status is None and time.monotonic() - asked_at >= ASK:
            asked_at = time.monotonic()
            if is_gone(container):
                # It may have noted its end after we looked and before it was gone.
                noted = noted_status(directory)
                status = CONTAINER_GONE if noted is None else noted
        has_begun = any(is_there(directory, *parts) for parts in awaited)
        if status is not None or has_begun or time.monotonic() >= deadline:
            return status
        time.sleep(LOOK)


def age(directory: str) -> float:
    """Return the seconds since a run's directory was made, 0 when it has been collected."""
    try:
        return max(0.0, time.time() - os.stat(os.path.join(directory, "config", "ssh")).st_mtime)
    except FileNotFoundError:
        return 0.0


def new_output(directory: str, since: int) -> dict[str, Any]:
    """Return what is new in the log of rank 0, see `read_log`; nothing where there is none."""
    try:
        return read_log(directory, LOG, OUTPUT_BYTES, since)
    except OSError:
        return {"offset": since, "end": since, "text": ""}


def poll(directory: LocalPath, wait: float = 10.0, log_offset: int = 0) -> dict[str, Any]:
    """Tell where a run stands; on its launcher.

    Waits, so that a follower need not come back more often than it shows something, and answers at
    once when the run ends. To come back costs more than to wait: the older a run, the longer.

    Args:
        wait: the longest wait in seconds; a fifth of it when the run is young, and half of it while
        rank 0 prints.
        log_offset: of the answer before, so that output comes once.

    Returns:
        `state`: starting until the first step, running, or finished.
        `exit_status`: of the run; None while it runs, 128 where its container ended before it did
        or somebody else collected it.
        `metrics`: of the trainer every line of an epoch, the start and the end, and the newest line
        of a step; of another program the newest value of each key, in the lines that they come
        from, which have nothing but such values and time, step, steps, epoch and epochs.
        `began`: whether the program of rank 0 has begun, with or without metrics.
        `checkpoints`: when the newest whole one was written, Unix seconds; 0 while there is none.
        `silences`: of a project's ranks, `time` at which each was noticed and `seconds` it had
        lasted.
        `output`: what is new in the log of rank 0, `offset` in bytes and `text`; and `log_offset`,
        where it ends.
    """
    container = container_of(os.path.basename(directory))
    seconds = min(wait, max(wait / 5, age(directory) * PACE))
    if new_output(directory, max(0, log_offset))["text"]:
        # It prints, and somebody looks on, perhaps.
        seconds = min(seconds, wait / 2)
    status = wait_for_end(directory, container, seconds)
    metrics = read_metrics(directory)
    output = new_output(directory, max(0, log_offset))
    return {
        "state": "finished" if status is not None else "running" if metrics else "starting",
        "exit_status": status,
        "metrics": metrics,
        "began": is_there(directory, "logs", LOG),
        "checkpoints": newest_checkpoint(directory),
        "silences": read_silences(directory),
        "log_offset": output.pop("end"),
        "output": output,
    }
