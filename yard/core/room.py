"""Where the control node lets nothing be written, a full disk above all, as sentences."""

import errno
import os
import shlex
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from yard.core.errors import RequestError, YardError

# Errors of a file system, or of a user's share of it, that takes no more.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class NoRoomError(YardError):
    """The control node's disk is full; the message names it and says how to go on."""


def check_room(folder: str) -> None:
    """See that a folder takes another file, for a program that does not say that it could not.

    Raises:
        OSError: it is full.
    """
    about = os.statvfs(folder)
    # What a file system keeps for root is room for root alone.
    blocks = about.f_bavail if os.geteuid() else about.f_bfree
    if blocks == 0 or _lacks_inodes(about):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), folder)


def check_writable(root: Path) -> None:
    """See that this account may write where the commands of a checkout keep their records.

    Raises:
        RequestError: it may not, because of sudo before, or the checkout is another person's.
    """
    for name in (".trainyard", ".trainyard/tmp", "runs"):
        place = root / name
        folder = next(each for each in (place, *place.parents) if each.is_dir())
        if os.access(folder, os.W_OK | os.X_OK):
            continue
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            raise RequestError(f"{folder}: nothing can be written, the file system is read-only")
        raise RequestError(
            f"{folder}: this account may not write there, where commands keep what they need",
            f"    after a command with sudo: sudo chown -R $(id -u) {shlex.quote(str(root))}",
            "    in a checkout of somebody else: git clone it, and use one of your own",
        )


@contextmanager
def full_disk_told(places: Sequence[Path], way_on: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Turn the error of a full disk, wherever it comes from, into sentences.

    Args:
        places: folders that are written to meanwhile; that of temporary files is known here.
        way_on: asked then for what goes on without this command, and what to do with room made.

    Raises:
        NoRoomError: a disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise NoRoomError("\n".join([_what_is_full(error, places), *way_on()])) from error


def _what_is_full(error: OSError, places: Sequence[Path]) -> str:
    """Name the folder and what is free there.

    The error of a write does not say which file it was: it is the fullest of the file systems.
    """
    named = [Path(os.fsdecode(error.filename))] if error.filename is not None else []
    tried = named or [*places, Path(tempfile.gettempdir()), *_outputs()]
    folder, about = min(map(_standing, tried), key=lambda pair: _room(pair[1]))
    what = "your quota is used up" if error.errno == errno.EDQUOT else "no space is left"
    return f"{what} on the control node, in {folder}: {_free(about)}"


def _outputs() -> Iterator[Path]:
    """The files that this command prints to, where they are files."""
    for number in (1, 2):
        if stat.S_ISREG(os.fstat(number).st_mode):
            yield Path(f"/proc/self/fd/{number}").resolve()


def _standing(place: Path) -> tuple[Path, os.statvfs_result]:
    """The first folder from a place upwards that is there, with what its file system says."""
    for folder in place.absolute().parents if not place.is_dir() else (place,):
        with suppress(FileNotFoundError, NotADirectoryError):
            return folder, os.statvfs(folder)
    return Path("/"), os.statvfs("/")


def _room(about: os.statvfs_result) -> int:
    """Free bytes; none where there is no room for another file."""
    return 0 if _lacks_inodes(about) else about.f_bavail * about.f_frsize


def _lacks_inodes(about: os.statvfs_result) -> bool:
    # Some file systems have no limit of inodes and count none.
    return about.f_files > 0 and about.f_favail == 0


def _free(about: os.statvfs_result) -> str:
    free, size = (blocks * about.f_frsize for blocks in (about.f_bavail, about.f_blocks))
    inodes = ", and no inode" if _lacks_inodes(about) else ""
    return f"{free:,} bytes{inodes} free of {size:,}"
