"""The code of a run on a node, and the files of it that the node keeps for later runs.

They are in `<root>/.code`, each under the name of its object (see code_listing), so that an
edit sends the files that changed and nothing else.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import IO

from ..machine.account import OWN_UID
from .code_listing import CHUNK, CodeError, Listing, digest_of
from .directory import RunDirectory
from .disk_space import room_for, size_of
from .records import remove_tree

STORE = ".code"
# What no run has used for so long is removed, in seconds.
UNUSED = 30 * 24 * 3600


class CodeStore:
    """The objects that a node keeps; root's alone."""

    def __init__(self, root: str) -> None:
        self._path = os.path.join(root, STORE)

    def missing(self, listings: Iterable[Listing]) -> list[str]:
        """Return the objects that are not here, or not whole: a machine may have lost its power."""
        wanted = sorted({name for listing in listings for name in listing.values()})
        return [name for name in wanted if not self._is_whole(name)]

    def _is_whole(self, name: str) -> bool:
        try:
            with open(self._object(name), "rb") as file:
                return bool(digest_of(file) == name.rstrip("x"))
        except FileNotFoundError:
            return False

    def receive(self, archive: IO[bytes], wanted: Iterable[str]) -> None:
        """Take objects out of an archive; what was not wanted stays in it.

        Raises:
            CodeError: one is not what its name says.
            NoRoomError: the disk is full.
            OSError: they cannot be read or written.
        """
        expected = set(wanted)

        def members() -> Iterator[tarfile.TarInfo]:
            return (each for each in packed if each.isfile() and each.name in expected)

        # It comes as it is sent, and is nowhere a second time.
        with tarfile.open(fileobj=archive, mode="r|gz") as packed:
            root = os.path.dirname(self._path)

            def needed() -> int:
                return sum(member.size for member in members())

            # Each object is there whole or not at all: of those that came the next launch has use.
            with room_for("the code of the run", root, needed, lambda: None):
                os.makedirs(self._path, mode=0o700, exist_ok=True)
                for member in members():
                    content = packed.extractfile(member)
                    assert content is not None, "it is a plain file"
                    self._write(member.name, content)

    def _write(self, name: str, content: IO[bytes]) -> None:
        scratch = self._object(f".{name}.{os.getpid()}")
        try:
            with open(scratch, "wb") as file:
                shutil.copyfileobj(content, file, CHUNK)
                os.fchmod(file.fileno(), 0o555 if name.endswith("x") else 0o444)
            with open(scratch, "rb") as file:
                if digest_of(file) != name.rstrip("x"):
                    raise CodeError(f"{name} came as something else")
            os.replace(scratch, self._object(name))
        finally:
            with suppress(FileNotFoundError):
                os.unlink(scratch)

    def remove_unused(self) -> None:
        """Remove what no run has used for long; after a run has its code, whose use counts."""
        with os.scandir(self._path) as objects:
            for entry in objects:
                with suppress(FileNotFoundError):
                    if time.time() - entry.stat(follow_symlinks=False).st_atime > UNUSED:
                        os.unlink(entry.path)

    def lay_out(self, listing: Listing, folder: str, gid: int) -> None:
        """Make a folder of code that the ranks can read and nobody can write.

        Raises:
            OSError: it cannot be written, or an object is not here.
        """
        for path, name in listing.items():
            target = os.path.join(folder, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            # A file system may limit the links to a file, and an empty file has many.
            try:
                os.link(self._object(name), target)
            except OSError:
                shutil.copyfile(self._object(name), target)
                shutil.copymode(self._object(name), target)
            # When it was used last, whether or not the file system notes that.
            about = os.stat(self._object(name))
            os.utime(self._object(name), ns=(time.time_ns(), about.st_mtime_ns))
        for above, _, _ in os.walk(folder):
            os.chown(above, OWN_UID, gid)
            os.chmod(above, 0o750)

    def size(self, listings: Iterable[Listing]) -> int:
        """Return the bytes of what is listed; it is here."""
        return sum(
            os.stat(self._object(name)).st_size for listing in listings for name in listing.values()
        )

    def _object(self, name: str) -> str:
        return os.path.join(self._path, name)


def lay_out_run(root: str, directory: RunDirectory, code: Mapping[str, Listing], gid: int) -> None:
    """Give a run its code: the `trainer`, and a `project` where there is one.

    Raises:
        NoRoomError: the disk is full.
        OSError: see `CodeStore.lay_out`.
    """
    store = CodeStore(root)

    def undo() -> None:
        for folder in (directory.trainer, directory.project):
            remove_tree(folder)

    with room_for("the code of the run", directory.path, lambda: store.size(code.values()), undo):
        for name, folder in (("trainer", directory.trainer), ("project", directory.project)):
            if code.get(name):
                store.lay_out(code[name], folder, gid)


def receive_run(
    archive: IO[bytes], root: str, directory: RunDirectory, code: Mapping[str, Listing], gid: int
) -> list[str]:
    """Give a run its code where the node lacks some, and return the objects that it lacked.

    Args:
        archive: the objects, as `code_listing.pack` writes them.

    Raises:
        CodeError, NoRoomError, OSError: see `CodeStore.receive` and `lay_out_run`.
    """
    store = CodeStore(root)
    wanted = store.missing(code.values())
    store.receive(archive, wanted)
    lay_out_run(root, directory, code, gid)
    # Only now: what the run has from before may have been unused for as long.
    store.remove_unused()
    return wanted


def copy_project(directory: RunDirectory, uid: int, gid: int) -> None:
    """Give the ranks a copy of the project that they can write; root writes it before they run.

    A file that they do not change keeps its time, and so is told from those they do.

    Raises:
        NoRoomError: the disk is full. Half a file would go home as one that the ranks changed.
    """
    if not os.path.isdir(directory.project):
        return
    with room_for(
        "the ranks' copy of the project",
        directory.path,
        lambda: size_of(directory.project),
        lambda: remove_tree(directory.workdir),
    ):
        _copy_files(directory, uid, gid)


def _copy_files(directory: RunDirectory, uid: int, gid: int) -> None:
    for folder, _, names in os.walk(directory.project):
        copy = os.path.join(directory.workdir, os.path.relpath(folder, directory.project))
        os.makedirs(copy, exist_ok=True)
        os.chown(copy, uid, gid)
        for name in names:
            source, target = os.path.join(folder, name), os.path.join(copy, name)
            shutil.copyfile(source, target)
            about = os.stat(source)
            os.chmod(target, 0o755 if about.st_mode & 0o100 else 0o644)
            os.chown(target, uid, gid)
            os.utime(target, ns=(about.st_atime_ns, about.st_mtime_ns))
