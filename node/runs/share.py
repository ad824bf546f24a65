"""Copies of a run's checkpoints and outputs on a share that the node has mounted.

They are made of what has been sorted out to go home, while the run goes on and when it is over, so
that no rank ever sees the share. Root opens the files, and the training user writes them there:
what that user may not write, and where a link on the share leads, is no matter of root's. Whatever
the share does, the files come home.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from ..check.paths import as_user, said_by_child
from .collect import CHECKPOINTS
from .directory import RunDirectory

# Of a run's directory at home, at the top and, of nodes other than the first, in the node's folder.
OUTPUTS = "outputs"
# Seconds without a byte after which the share counts as gone.
SILENCE = 60.0
# Written at once.
CHUNK = 4 << 20
# Seconds that the times of a file and of its copy may differ in: shares keep them less exactly.
EQUAL_TIMES = 2.0
# What the process that copies says: it goes on; it is done, and what went wrong follows.
GOES_ON, DONE = b".", b"\n"


def copy_to_share(directory: RunDirectory, folder: str, share: str, uid: int, gid: int) -> str:
    """Copy checkpoints and outputs to a folder of the run's name on a share.

    What is there with the same size and time is not written again. What this node has copied before
    in this attempt, and is no longer among them, is removed.

    Args:
        folder: what is copied, `live` or `collect`; nobody but root may write there.
        share: folder that is there, and that the user may write in.
        uid, gid: of that user, whom the copies belong to.

    Returns:
        Why not all of them are there; empty where they are.
    """
    files = list(_files(folder))
    copied: set[str] = set()
    with suppress(OSError, ValueError), open(directory.shared, encoding="utf-8") as note:
        copied = set(json.load(note))
    gone = copied - {path for _, path in files}
    if not files and not gone:
        return ""
    # Before they are there: what is interrupted is known to the next time. What a full disk keeps
    # from being noted stays on the share.
    with suppress(OSError), open(directory.shared, "w", encoding="utf-8") as note:
        json.dump(sorted(copied | {path for _, path in files}), note)
    home = os.path.join(share, os.path.basename(directory.path))
    said = said_by_child(partial(_copy_all, files, sorted(gone), home, uid, gid), SILENCE)
    if said is None:
        return f"{share} takes nothing for {SILENCE:g} s"
    _, done, trouble = said.partition(DONE)
    return trouble.decode(errors="replace") if done else "the process that copied was killed"


def _files(top: str) -> Iterator[tuple[str, str]]:
    """Yield each file or link to copy, and its path below the folder of the run."""
    nodes = os.path.join(top, "nodes")
    folders = [CHECKPOINTS, OUTPUTS]
    if os.path.isdir(nodes):
        folders += [f"nodes/{host}/{OUTPUTS}" for host in sorted(os.listdir(nodes))]
    for folder in folders:
        for above, _, names in os.walk(os.path.join(top, folder)):
            for name in sorted(names):
                path = os.path.join(above, name)
                yield path, os.path.relpath(path, top)


def _copy_all(
    files: list[tuple[str, str]], gone: list[str], home: str, uid: int, gid: int, answer: int
) -> None:
    """All that the process does that copies."""
    trouble = ""
    try:
        with as_user(uid, gid):
            os.stat(os.path.dirname(home))  # which a share that is not mounted lacks
        for source, path in files:
            _copy(source, os.path.join(home, path), uid, gid, lambda: os.write(answer, GOES_ON))
        for path in gone:
            with as_user(uid, gid), suppress(FileNotFoundError):
                os.remove(os.path.join(home, path))
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        trouble = f"{error.strerror or error}{place}"
    except Exception as error:  # whatever it is, the files come home
        trouble = f"{type(error).__name__}: {error}"
    os.write(answer, DONE + trouble.encode())


def _copy(source: str, target: str, uid: int, gid: int, alive: Callable[[], int]) -> None:
    """Copy one file, whole or not at all; of a link what it leads to, where there are no links."""
    if os.path.islink(source):
        leads_to = os.readlink(source)
        with as_user(uid, gid):
            if os.path.lexists(target):
                os.remove(target)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            try:
                os.symlink(leads_to, target)
            except OSError:
                pass
            else:
                return
        if not os.path.isfile(source):
            return
    with open(source, "rb") as file:
        about = os.fstat(file.fileno())
        scratch = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.part")
        with as_user(uid, gid):
            if _is_there(target, about):
                return
            os.makedirs(os.path.dirname(target), exist_ok=True)
            try:
                with open(scratch, "wb") as copy:
                    while part := file.read(CHUNK):
                        copy.write(part)
                        alive()
                    copy.flush()
                    os.fsync(copy.fileno())
                os.utime(scratch, ns=(about.st_atime_ns, about.st_mtime_ns))
                os.replace(scratch, target)
            except OSError:
                if os.path.exists(scratch):
                    os.remove(scratch)
                raise
    alive()


def _is_there(path: str, about: os.stat_result) -> bool:
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return False
    return (
        there.st_size == about.st_size
        and abs(there.st_mtime - about.st_mtime) <= EQUAL_TIMES
        and os.path.isfile(path)
    )
