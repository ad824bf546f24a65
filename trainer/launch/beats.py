"""Reads the heartbeats of ranks, whose programs may have put anything in their place."""

import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from trainer.heartbeat import COMPUTES, WAITS

# The line that trainer/heartbeat.py writes, and how much of a file is read to find it.
LINE = re.compile(rb"([%b%b]) (\d{1,12}\.\d{3})\n" % (COMPUTES, WAITS))
LINE_BYTES = 64
NAME = re.compile(r"\d{1,6}\.beat", re.ASCII)
LOG = re.compile(r"rank-\d{1,6}\.log", re.ASCII)
# So many entries of the folder are looked at: each look of the watch is to take no time.
MOST_ENTRIES = 10_000

# Tells one state of a file from another: inode, bytes, and nanoseconds of the wall clock, which
# are compared with nothing but themselves.
Mark = tuple[int, int, int]


@dataclass(frozen=True)
class Beat:
    """A sign of life.

    Attributes:
        state: `COMPUTES` or `WAITS`.
        moment: when it was given, seconds of `trainer.heartbeat.clock`.
    """

    state: bytes
    moment: float


def beat_file(run_dir: Path, rank: int) -> Path:
    """The file of a rank's sign of life."""
    return run_dir / "ranks" / f"{rank}.beat"


def read_beat(run_dir: Path, rank: int) -> Beat | None:
    """Return a rank's last sign of life; None where it has given none that can be read.

    Neither a pipe nor a link nor a file of any size keeps who reads it.
    """
    with suppress(OSError):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(beat_file(run_dir, rank), flags)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            found = LINE.fullmatch(os.read(descriptor, LINE_BYTES))
        finally:
            os.close(descriptor)
        return Beat(found[1], float(found[2])) if found else None
    return None


def mark_of(path: Path) -> Mark | None:
    """Return what changes when a file does; None where there is none."""
    with suppress(OSError):
        about = path.lstat()
        return about.st_ino, about.st_size, about.st_mtime_ns
    return None


def beat_marks(run_dir: Path) -> dict[str, Mark]:
    """Return the marks of all signs of life in a run directory, by the names of their files."""
    return _marks(run_dir / "ranks", NAME)


def log_marks(run_dir: Path) -> dict[str, Mark]:
    """Return the marks of the ranks' logs, by the names of their files."""
    return _marks(run_dir / "logs", LOG)


def _marks(folder: Path, pattern: re.Pattern[str]) -> dict[str, Mark]:
    marks = {}
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, MOST_ENTRIES):
            mark = mark_of(Path(entry.path)) if pattern.fullmatch(entry.name) else None
            if mark is not None:
                marks[entry.name] = mark
    return marks
