"""A rank's sign of life: the time and the byte that it last wrote. See docker/trainer/bin/rank."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

# What `trainer.launch` reads; it looks at the processor time only of ranks that do not wait.
COMPUTES, WAITS = b"c", b"w"

_FILE = os.environ.get("TRAINYARD_BEAT", "")
_descriptor = os.open(_FILE, os.O_WRONLY) if _FILE else None


def beat(state: bytes = COMPUTES) -> None:
    """Say that this rank has got on; to be called wherever it has, it costs microseconds."""
    if _descriptor is not None:
        os.pwrite(_descriptor, state, 0)


@contextmanager
def waiting() -> Iterator[None]:
    """Say that this rank waits for the others."""
    beat(WAITS)
    yield
    beat()
