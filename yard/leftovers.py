"""What a `yard` that was killed leaves on the control node, and the next one takes away.

A killed process can do nothing any more. Ansible's workers have sessions of their own and would
follow its run for ever; its private folder holds variables and lies in the temporary folder.
"""

import fcntl
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "trainyard-play-"
# A folder younger than this, in seconds, may not have been claimed yet by the process that made it.
YOUNG = 2.0


@contextmanager
def private_folder() -> Iterator[str]:
    """Make a folder for one playbook, claimed for as long as this process lives."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield folder
        finally:
            os.close(descriptor)


def clear_leftovers() -> None:
    """Remove the folders of dead processes of this user, and the workers that they had."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        # Another user's folder, or one that another yard removes at the same time.
        with suppress(PermissionError, FileNotFoundError):
            if time.time() - folder.stat().st_mtime < YOUNG or _is_claimed(folder):
                continue
            for process in _processes_of(folder):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            shutil.rmtree(folder)


def _is_claimed(folder: Path) -> bool:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _processes_of(folder: Path) -> Iterator[int]:
    """Yield the processes that name a folder in their command lines, as Ansible's do."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if bytes(folder) in (process / "cmdline").read_bytes():
                yield int(process.name)
