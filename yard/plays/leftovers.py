"""What Ansible or a killed `yard` leaves on the control node, and who takes it away.

Ansible's workers have sessions of their own and would follow their task for ever: a worker that is
forked at the moment of a signal, or whose ansible-playbook is killed, is told by nobody. A killed
`yard` can do nothing any more: its workers and its private folder, which holds variables, go when
the next one starts.
"""

import fcntl
import os
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "trainyard-play-"
# A folder younger than this, in seconds, may not have been claimed yet by the process that made it.
YOUNG = 2.0
# How often is looked whether the workers have ended, in seconds.
POLL = 0.1


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
    """Remove the folders of dead processes of this user, and the workers that they had.

    Anybody can make a file, a link or a folder of such a name there, and it must neither stop a
    command nor have the workers of a living one ended.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(FileNotFoundError):  # another yard removes it at the same time
            about = folder.lstat()
            if about.st_uid != os.getuid() or not stat.S_ISDIR(about.st_mode):
                continue
            if time.time() - about.st_mtime < YOUNG or _is_claimed(folder):
                continue
            _signal_workers(folder, signal.SIGKILL)
            shutil.rmtree(folder)


def end_workers(folder: Path, grace: float) -> None:
    """End the workers, and their commands, that outlived the ansible-playbook of a folder.

    Args:
        grace: how long they get before they are killed, in seconds.
    """
    kill_at = time.monotonic() + grace
    sent = signal.SIGTERM
    while _signal_workers(folder, sent):
        time.sleep(POLL)
        if time.monotonic() > kill_at:
            sent = signal.SIGKILL


def _is_claimed(folder: Path) -> bool:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _signal_workers(folder: Path, number: signal.Signals) -> bool:
    any_alive = False
    for process in _workers_of(folder):
        any_alive = True
        with suppress(ProcessLookupError):
            # A worker leads a group, which its commands belong to; one just forked does not yet.
            if os.getpgid(process) == process:
                os.killpg(process, number)
            else:
                os.kill(process, number)
    return any_alive


def _workers_of(folder: Path) -> Iterator[int]:
    """Yield the ansible-playbook processes whose environment names a folder.

    The commands that they started inherit the environment too, and a service of the control node
    may be among them: that one stays.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if (
                b"ansible-playbook" in (process / "cmdline").read_bytes()
                and bytes(folder) in (process / "environ").read_bytes()
            ):
                yield int(process.name)
