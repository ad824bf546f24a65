# Copyright Trainyard. Apache-2.0
"""The verb `logs`: what is new in the logs of a run on this node."""

from __future__ import annotations

import os
import time
from fnmatch import fnmatchcase
from typing import Any

from ..engine.containers import EngineError
from ..forms import LocalPath
from ..runs.lock import is_live, read
from ..runs.untrusted import logs_of, read_rank_file

# What a call returns at least of the end of a log: more than is written between two calls.
OVERLAP_BYTES = 16 * 1024
WHOLE_BYTES = 1024 * 1024
# A log written to this shortly before a call may have grown between two calls; in seconds.
RECENT = 3.0
LOOK, ASK = 0.3, 2.0


class Logs:
    """The ranks' logs in the directory of a run.

    Args:
        directory: of the run.
        rank: the only one to look at; None for all.
    """

    def __init__(self, directory: str, rank: int | None) -> None:
        self._directory = directory
        self._pattern = "rank-*.log" if rank is None else f"rank-{rank}.log"

    def sizes(self) -> dict[str, tuple[int, float]]:
        """Return size in bytes and time of the last change, Unix seconds, by file name."""
        return {
            name: (about.st_size, about.st_mtime)
            for name, about in logs_of(self._directory).items()
            if fnmatchcase(name, self._pattern)
        }

    def read(self, size: int) -> dict[str, dict[str, Any]]:
        """Return the last `size` bytes of each up to the last whole line, and where they begin.

        Raises:
            OSError: one is gone.
        """
        return {name: self._read_end(name, size) for name in sorted(self.sizes())}

    def _read_end(self, name: str, size: int) -> dict[str, Any]:
        offset, content = read_rank_file(self._directory, "logs", name, size=size)
        content = content[: content.rfind(b"\n") + 1]
        if offset:  # begin with a whole line
            begin = content.find(b"\n") + 1
            offset, content = offset + begin, content[begin:]
        return {"offset": offset, "text": content.decode(errors="replace")}


def is_over(directory: str) -> bool:
    """Tell whether the run no longer holds this node."""
    root, run_id = os.path.split(directory)
    try:
        return not any(lock["run"] == run_id and is_live(lock) for lock in read(root))
    except EngineError:
        return False


def wait_for_more(logs: Logs, directory: str, seconds: float) -> bool:
    """Wait until a log grows; return whether the run is over."""
    before = logs.sizes()
    deadline = time.monotonic() + seconds
    asked_at = float("-inf")
    while time.monotonic() < deadline:
        if time.monotonic() - asked_at >= ASK:
            asked_at = time.monotonic()
            if is_over(directory):
                return True
        if logs.sizes() != before:
            time.sleep(LOOK)  # one line seldom comes alone
            return False
        time.sleep(LOOK)
    return False


def logs(
    directory: LocalPath, rank: int | None = None, whole: bool = False, wait: float = 10.0
) -> dict[str, Any]:
    """Read the end of the ranks' logs, as soon as one grows.

    Args:
        directory: of the run.
        rank: whose log; None for all.
        whole: whether as much as possible of each is read, at once.
        wait: seconds to wait at the most.

    Returns:
        `logs`: by file name, `offset` in bytes and `text`; and `over`: whether the run no longer
        holds the machine.
    """
    found = Logs(directory, rank)
    recent = any(time.time() - changed < RECENT for _, changed in found.sizes().values())
    longest = 0.0 if whole else RECENT / 3 if recent else wait
    over = wait_for_more(found, directory, longest) or is_over(directory)
    try:
        said = found.read(WHOLE_BYTES if whole else OVERLAP_BYTES)
    except OSError:
        said, over = {}, True  # collected meanwhile
    return {"logs": said, "over": over}
