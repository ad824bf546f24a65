"""The verb `logs`: what is new in the logs of a run on this node."""

from __future__ import annotations

import os
import time
from fnmatch import fnmatchcase
from typing import Any

from ..engine.containers import EngineError
from ..forms import LocalPath
from ..runs.lock import is_live, read
from ..runs.untrusted import logs_of, read_log

# Of what is new in all logs of a node, at most: the newest of each. As text of an answer a byte may
# take six (calls.MOST_ANSWERED).
MOST_BYTES = 1024 * 1024
# A log written to this shortly before a call may have grown between two calls; in seconds.
RECENT = 3.0
LOOK, ASK = 0.3, 2.0


class Logs:
    """The ranks' logs in the directory of a run; of `rank` alone, unless that is None."""

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

    def read(self, size: int, ends: dict[str, int] | None = None) -> dict[str, dict[str, Any]]:
        """Return what is new in each, see `read_log`, of at most `size` bytes together.

        Args:
            ends: up to where each has been read before, in bytes.

        Raises:
            OSError: one is gone.
        """
        known = ends or {}
        names = sorted(self.sizes())
        return {
            name: read_log(
                self._directory, name, size // len(names), max(0, int(known.get(name, 0)))
            )
            for name in names
        }


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
    directory: LocalPath,
    rank: int | None = None,
    whole: bool = False,
    wait: float = 10.0,
    ends: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Read what is new in the ranks' logs, as soon as one grows.

    Args:
        rank: whose log; None for all.
        wait: seconds to wait at the most.
        ends: of the answer before, so that everything comes once.

    Returns:
        `logs`: by file name, `offset` and `end` in bytes and `text`; `ends` once more by file name;
        and `over`: whether the run no longer holds the machine.
    """
    found = Logs(directory, rank)
    recent = any(time.time() - changed < RECENT for _, changed in found.sizes().values())
    longest = 0.0 if whole else RECENT / 3 if recent else wait
    over = wait_for_more(found, directory, longest) or is_over(directory)
    try:
        said = found.read(MOST_BYTES, ends)
    except OSError:
        said, over = {}, True  # collected meanwhile
    read = {name: piece["end"] for name, piece in said.items()}
    return {"logs": said, "ends": {**(ends or {}), **read}, "over": over}
