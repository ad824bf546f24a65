"""A folder of a node that ranks read where it is: whether they may, and what is mounted for it.

The engine mounts as root: it passes directories that the ranks' account may not pass, and looks the
path up once more. Two rules keep a rank from reading what its account could not read on the node:
that account reads the folder here first, and what is mounted begins no deeper than the last
directory that nobody but root can put another thing in the place of.
"""

from __future__ import annotations

import os
import posixpath
import pwd
import re

from ..machine.account import OWN_UID
from .paths import PATH_SECONDS, as_user, is_missing, within
from .problems import Problem, problem

# Of the system. On a node the account may read much there; a rank in its container shall not.
SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc"),
    *("/root", "/run", "/sbin", "/sys", "/tmp", "/usr", "/var"),
)
MOUNTS = "/proc/self/mountinfo"
# Who may write in a directory beside its owner.
OTHERS_WRITE = 0o022


class FolderError(Exception):
    """The folder is not to be mounted."""

    def __init__(self, found: Problem) -> None:
        super().__init__(found.text)
        self.problem = found


def find_mount(path: str, uid: int, gid: int, root: str) -> str:
    """Return what has to be mounted for ranks to read a folder: the folder, or one above it.

    Args:
        path: absolute, as it was asked for.
        uid, gid: whom the ranks run as.

    Raises:
        FolderError: it is not there or empty, that account cannot read it, or it must not be
            mounted.
    """
    # Without root the account's data may be in its home, beside its keys.
    home = _home(uid) if OWN_UID == 0 else tuple(f"{place}/.ssh" for place in _home(uid))
    private = (*SYSTEM, os.path.realpath(root), *home)
    if path != posixpath.normpath(path) or path.startswith("//"):
        raise FolderError(problem("folder_not_plain", path=path))
    _refuse(path, path, private)
    trouble = within(PATH_SECONDS, lambda: _look(path, uid, gid))
    if is_missing(trouble):
        raise FolderError(problem("folder_missing", path=path))
    if trouble:
        raise FolderError(problem("folder_unreadable", path=path, message=trouble))
    if os.path.realpath(path) != path:
        raise FolderError(problem("folder_is_link", path=path, target=os.path.realpath(path)))
    mount = _last_of_root(path) if OWN_UID == 0 else path
    _refuse(path, mount, private)
    below = [place for place in _mounted() if place.startswith(f"{mount}/")]
    if below:
        raise FolderError(problem("folder_has_mounts", path=path, mount=mount, place=below[0]))
    return mount


def _home(uid: int) -> tuple[str, ...]:
    """The home of the ranks' account, which has its keys; none of an account without a name."""
    try:
        return (os.path.realpath(pwd.getpwuid(uid).pw_dir),)
    except KeyError:
        return ()


def _refuse(path: str, mount: str, private: tuple[str, ...]) -> None:
    """See that what is mounted neither holds nor lies in a place that no rank may see."""
    for place in private:
        if f"{mount}/".startswith(f"{place}/") or f"{place}/".startswith(f"{mount.rstrip('/')}/"):
            values = {"path": path, "mount": mount, "place": place}
            raise FolderError(problem("folder_private", **values))


def _look(path: str, uid: int, gid: int) -> None:
    """Read a folder as the ranks' account; this mounts a share that waits for the first look."""
    with as_user(uid, gid), os.scandir(path) as entries:
        if next(entries, None) is None:
            # A share that is not mounted leaves an empty directory.
            raise FileNotFoundError(2, os.strerror(2))


def _last_of_root(path: str) -> str:
    """Return the longest beginning of a path that nobody but root can change."""
    place = "/"
    for name in path.split("/")[1:]:
        status = os.lstat(place)
        if status.st_uid != 0 or status.st_mode & OTHERS_WRITE:
            break
        place = posixpath.join(place, name)
    return place


def _mounted() -> list[str]:
    with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
        places = [line.split(" ")[4] for line in file]
    return [re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), place) for place in places]
