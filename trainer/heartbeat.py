"""A rank's heartbeat, one line in `ranks/<rank>.beat`: its state, and the time of the report.

    c 81234.567

The letter is `COMPUTES` or `WAITS`; the number counts seconds as `clock` does. See
docker/trainer/bin/rank, which makes the file, and trainer/launch/beats.py, which reads it.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

# What `trainer.launch` reads; it looks at the processor time only of ranks that do not wait.
COMPUTES, WAITS = b"c", b"w"

_FILE = os.environ.get("TRAINYARD_BEAT", "")
_descriptor = os.open(_FILE, os.O_WRONLY) if _FILE else None


def clock() -> float:
    """Seconds since the node was started.

    Nobody sets this clock, all containers of a node share it, and proc(5) dates processes by it.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def beat(state: bytes = COMPUTES) -> None:
    """Report that this rank made progress; call it wherever it does. It costs microseconds."""
    if _descriptor is not None:
        # The line never gets shorter while the node is up, so nothing of an older one is left.
        os.pwrite(_descriptor, b"%b %.3f\n" % (state, clock()), 0)


@contextmanager
def waiting() -> Iterator[None]:
    """Say that this rank waits for the others."""
    beat(WAITS)
    yield
    beat()
