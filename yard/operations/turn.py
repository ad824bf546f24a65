"""Commands of one checkout make nodes ready one after the other: they build in the same folders."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from yard.core.context import Context
from yard.core.errors import Interrupted

# How often it is looked whether the other command has ended, in seconds.
TICK = 0.2


@contextmanager
def turn(context: Context) -> Iterator[bool]:
    """Wait until no other command makes nodes ready; a killed one does so no more.

    Yields:
        Whether another one did, so that what is known of the nodes may be old.

    Raises:
        Interrupted: the user stopped while it waited.
    """
    folder = context.project.root / ".trainyard" / "image"
    folder.mkdir(parents=True, exist_ok=True)
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    waited = False
    try:
        while not _has(directory):
            if not waited:
                context.console.print("Another command here makes nodes ready; this one waits.")
            waited = True
            if context.interrupts.requested:
                raise Interrupted("interrupted before anything was started")
            time.sleep(TICK)
        yield waited
    finally:
        os.close(directory)


def _has(directory: int) -> bool:
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
