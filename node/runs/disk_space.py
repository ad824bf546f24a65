"""A full disk of a node: a problem in place of a traceback, and nothing half that looks whole."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..check.problems import Problem, problem
from ..failure import RefusedError

# Errors of a file system, or of a user's share of it, that takes no more.
FULL = (errno.ENOSPC, errno.EDQUOT)
# Below this a disk counts as full: less than any checkpoint needs. The trainer is told it in the
# environment of its container, as TRAINYARD_FULL_BYTES.
FULL_BYTES = 1_000_000


def free_bytes(directory: str) -> int:
    """Return what an ordinary user can still write below a directory."""
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize


def lacks_inodes(directory: str) -> bool:
    """Return whether the disk of a directory takes no more files."""
    disk = os.statvfs(directory)
    # Some file systems have no limit of inodes and count none.
    return disk.f_files > 0 and disk.f_favail == 0


class NoRoomError(Exception):
    """A disk of the node is full."""

    def __init__(self, found: Problem) -> None:
        super().__init__(found.text)
        self.problem = found


@contextmanager
def refusing(host: str) -> Iterator[None]:
    """Have a run refused where a disk is full.

    Raises:
        RefusedError: it is.
    """
    try:
        yield
    except NoRoomError as error:
        outcome = f"The run was not started.\n{host}: "
        raise RefusedError(outcome, [error.problem.asdict()]) from error


@contextmanager
def room_for(
    what: str, path: str, needed: Callable[[], int], undo: Callable[[], None]
) -> Iterator[None]:
    """Write something on a disk of the node, whole or not at all.

    Args:
        path: the folder that it is written to, or one above that is there.
        needed: returns the bytes that it takes; asked where they are not there.
        undo: removes what has been written of it; called after any error.

    Raises:
        NoRoomError: the disk is full, or the user's share of it.
    """
    try:
        yield
    except OSError as error:
        # What is free is to be known before there is room again.
        found = _no_room(what, path, needed(), error) if error.errno in FULL else None
        undo()
        if found is None:
            raise
        raise NoRoomError(found) from error


def _no_room(what: str, path: str, needed: int, error: OSError) -> Problem:
    if error.errno == errno.EDQUOT:
        return problem("quota_used_up", what=what, path=path, needed=needed)
    if lacks_inodes(path):
        return problem("no_inode", what=what, path=path)
    return problem("no_room", what=what, path=path, needed=needed, free=free_bytes(path))


def error_of(words: str) -> OSError:
    """Return the error that a program has told of in English."""
    for number in FULL:
        if os.strerror(number) in words:
            return OSError(number, words.strip())
    return OSError(words.strip())


def size_of(folder: str) -> int:
    """Return the bytes of all files below a folder."""
    paths = (os.path.join(above, name) for above, _, names in os.walk(folder) for name in names)
    return sum(os.lstat(path).st_size for path in paths)
