"""A data set on a node: compared with its manifest, and put in place as a whole.

Beside the data sets, in `<directory>/.transfer/<name>`, root has

    manifest    what the data set is to hold
    put         there once a data set was put in place under this name
    files/      what comes, until all of it is there; it belongs to the user who sends
    old/        what was in place before, for a moment

Of what is in place already, the good files are linked into `files`, so that only the others are
sent. What comes is checked against the manifest, becomes root's, and takes the place of the old in
one step: no training finds a part of it. Everything is opened below a descriptor and never through
a link, for `files` is another user's.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from .files import DataError, Entry, digest_of, in_threads, read_manifest, shown, size_shown

TRANSFER = ".transfer"
# Where rsync keeps the beginning of a file, in the folder of that file.
PARTIAL = ".rsync-partial"
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe waits for whoever writes into it.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
FILE_MODE, DIRECTORY_MODE = 0o644, 0o755
# What the trainer's own data sets have, those too that an earlier version put there.
PREPARED = "dataset.json"
# So many files are named that are not what they should be.
NAMED = 5


class Stage(NamedTuple):
    """What a node needs.

    Attributes:
        complete: it has all of the data set, as it should be.
        missing: how many files are to come, and how many bytes they have.
    """

    complete: bool
    missing: int = 0
    missing_bytes: int = 0


class Place:
    """The place of a data set on this node.

    Args:
        directory: of all data sets; it is root's.

    Raises:
        DataError: `name` cannot be that of a folder in the directory.
    """

    def __init__(self, directory: str, name: str) -> None:
        if "/" in name or name.startswith(".") or not name:
            raise DataError(f"{name!r} is not the name of a data set")
        self.directory = directory
        self.path = os.path.join(directory, name)
        self.transfer = os.path.join(directory, TRANSFER, name)
        self.manifest = os.path.join(self.transfer, "manifest")
        self.files = os.path.join(self.transfer, "files")
        self._put = os.path.join(self.transfer, "put")
        self._old = os.path.join(self.transfer, "old")

    def look(self) -> tuple[Stage, dict[str, Entry], set[str]]:
        """Compare what is in place with the manifest; returns that, and what of it is good.

        Raises:
            DataError: something is in place that is not ours to replace.
            OSError: it cannot be read.
        """
        try:
            entries = read_manifest(self.manifest)
        except FileNotFoundError:
            return Stage(complete=False), {}, set()  # a dry run before the first real one
        with _opened(self.path) as place:
            if place is None:
                return _stage(entries, set(), tidy=False), entries, set()
            good, tidy = _good(place, entries)
            extra = {path for path, _ in _walk(place)} - set(entries)
        stage = _stage(entries, good, tidy and not extra)
        ours = os.path.exists(self._put) or os.path.exists(os.path.join(self.path, PREPARED))
        if not stage.complete and not ours and (good or extra):
            raise DataError(
                f"{self.path} exists and is not of make data: choose another name, or remove it"
            )
        if os.path.ismount(self.path):
            raise DataError(f"{self.path} is a mounted file system, which is not replaced")
        return stage, entries, good

    def stage(self, uid: int) -> Stage:
        """Make `files` ready for what is missing, which user `uid` will send.

        Raises:
            DataError: see `look`, or there is no room.
            OSError: it cannot be written.
        """
        stage, entries, good = self.look()
        if stage.complete:
            self._forget()
            return stage
        self._check_room(entries, good)
        with suppress(FileNotFoundError):
            shutil.rmtree(self._old)
        with suppress(FileExistsError):
            os.mkdir(self.files, 0o700)
        with ExitStack() as stack:
            files = stack.enter_context(_directory(self.files))
            os.fchown(files, uid, -1)
            _prune(files, entries, partial=True)
            place = stack.enter_context(_opened(self.path))
            for path, entry in entries.items():
                if place is not None and path in good:
                    _link(place, files, entry, uid)
                elif place is not None and _inode(place, path) == _inode(files, path):
                    _unlink(files, path)  # it was good when it was linked, and is not any more
            for _, _, _, folder in os.fwalk(".", dir_fd=files):
                os.fchown(folder, uid, -1)
        return stage

    def settle(self) -> int:
        """Check what came, and put all in place; returns the number of files.

        Raises:
            DataError: a file is not what the manifest says. It is gone: the next time sends it.
            OSError: it cannot be written.
        """
        entries = read_manifest(self.manifest)
        with ExitStack() as stack:
            files = stack.enter_context(_directory(self.files))
            place = stack.enter_context(_opened(self.path))
            _prune(files, entries, partial=False)
            _give_to_root(files, place)

            def is_good(entry: Entry) -> bool:
                inode = _inode(files, entry.path)
                # What is linked was checked when it was linked, a moment ago.
                linked = place is not None and inode == _inode(place, entry.path)
                return inode is not None and (linked or _matches(files, entry))

            answers = in_threads(is_good, entries.values())
            bad = [path for path, good in zip(entries, answers) if not good]
            for path in bad:
                _unlink(files, path)
            if bad:
                more = f" and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
                raise DataError(
                    f"{', '.join(map(shown, bad[:NAMED]))}{more} arrived with other content than "
                    "on the control node: the source changed meanwhile, or a disk or memory is "
                    "bad. Give the command again: it sends only these"
                )
        # What is in place must be on the disk, also after the machine loses its power.
        os.sync()
        with open(self._put, "w", encoding="ascii"):
            pass
        with suppress(FileNotFoundError):
            os.rename(self.path, self._old)
        os.rename(self.files, self.path)
        self._forget()
        return len(entries)

    def _forget(self) -> None:
        """Remove what only a transfer needs."""
        for folder in (self.files, self._old):
            with suppress(FileNotFoundError):
                shutil.rmtree(folder)

    def _check_room(self, entries: Mapping[str, Entry], good: set[str]) -> None:
        """See that what has not come yet has room."""
        size = sum(entry.size for entry in entries.values())
        needed, files = size, len(entries)
        with _opened(self.files) as staged:
            for path, entry in entries.items():
                if path in good or (staged is not None and _size(staged, path) == entry.size):
                    needed -= entry.size
                    files -= 1
        about = os.statvfs(self.directory)
        # What a file system keeps for root is not for the user who sends.
        free = about.f_bavail * about.f_frsize
        if needed > free:
            raise DataError(
                f"{self.directory} has {size_shown(free)} free, and {size_shown(needed)} of "
                f"{size_shown(size)} are to come: make room there (du -x tells what takes it)"
            )
        # Some file systems have no limit of inodes and count none.
        if about.f_files and files > about.f_favail:
            raise DataError(
                f"{self.directory} has {about.f_favail:,} free inodes, and {files:,} of "
                f"{len(entries):,} files are to come: remove files there, or pack small ones into "
                "an archive"
            )


def _stage(entries: Mapping[str, Entry], good: set[str], tidy: bool) -> Stage:
    missing = [entry for path, entry in entries.items() if path not in good]
    return Stage(
        complete=tidy and not missing,
        missing=len(missing),
        missing_bytes=sum(entry.size for entry in missing),
    )


def _good(place: int, entries: Mapping[str, Entry]) -> tuple[set[str], bool]:
    """The files whose content is right, and whether everybody can read these and nobody write."""
    found = dict(_walk(place))
    candidates = [entry for path, entry in entries.items() if path in found]
    answers = in_threads(lambda entry: _matches(place, entry), candidates)
    good = {entry.path for entry, answer in zip(candidates, answers) if answer}
    folders = (os.fstat(folder).st_mode for _, _, _, folder in os.fwalk(".", dir_fd=place))
    tidy = all(stat.S_IMODE(mode) == DIRECTORY_MODE for mode in folders) and all(
        stat.S_IMODE(found[path]) == FILE_MODE for path in good
    )
    return good, tidy


def _walk(place: int) -> Iterator[tuple[str, int]]:
    """Yield path and mode of all below a folder that is no folder."""
    for above, folders, names, folder in os.fwalk(".", dir_fd=place):
        links = [name for name in folders if stat.S_ISLNK(_mode(folder, name))]
        for name in (*names, *links):
            yield os.path.normpath(os.path.join(above, name)), _mode(folder, name)


def _mode(folder: int, name: str) -> int:
    return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode


@contextmanager
def _directory(path: str) -> Iterator[int]:
    descriptor = os.open(path, DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _opened(path: str) -> Iterator[int | None]:
    """A folder; None where there is none."""
    try:
        descriptor = os.open(path, DIRECTORY)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise DataError(
            f"{path} is a link or no folder: {error.strerror}; choose another name, or remove it"
        ) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _above(root: int, path: str, owner: int | None = None) -> Iterator[tuple[int, str]]:
    """The folder that a path below `root` is in, and the last name; none of it is a link.

    Args:
        owner: folders that are missing are made, and are this user's.

    Raises:
        OSError: one is missing, or something else is in its place.
    """
    *folders, name = path.split("/")
    descriptor = os.dup(root)
    try:
        for folder in folders:
            if owner is not None:
                with suppress(FileExistsError):
                    os.mkdir(folder, DIRECTORY_MODE, dir_fd=descriptor)
            below = os.open(folder, DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor, name
    finally:
        os.close(descriptor)


def _about(root: int, path: str) -> os.stat_result | None:
    """What a plain file is; None where there is none."""
    try:
        with _above(root, path) as (folder, name):
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return about if stat.S_ISREG(about.st_mode) else None


def _size(root: int, path: str) -> int | None:
    about = _about(root, path)
    return None if about is None else about.st_size


def _inode(root: int, path: str) -> tuple[int, int] | None:
    about = _about(root, path)
    return None if about is None else (about.st_dev, about.st_ino)


def _matches(root: int, entry: Entry) -> bool:
    """Whether a plain file has the content that it should have."""
    try:
        with _above(root, entry.path) as (folder, name):
            descriptor = os.open(name, FILE, dir_fd=folder)
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size != entry.size:
            return False
        try:
            return bool(digest_of(file) == entry.sha256)
        except OSError:
            return False  # a bad sector: the file is to come anew


def _link(place: int, files: int, entry: Entry, uid: int) -> None:
    """Link a good file of the place into what comes, as rsync will find it there."""
    with ExitStack() as stack:
        source, name = stack.enter_context(_above(place, entry.path))
        target, _ = stack.enter_context(_above(files, entry.path, owner=uid))
        descriptor = os.open(name, FILE, dir_fd=source)
        stack.callback(os.close, descriptor)
        os.fchmod(descriptor, FILE_MODE)
        os.utime(descriptor, ns=(entry.mtime, entry.mtime))
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=target)
        os.link(name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)


def _unlink(root: int, path: str) -> None:
    with suppress(OSError), _above(root, path) as (folder, name):
        os.unlink(name, dir_fd=folder)


def _prune(files: int, entries: Mapping[str, Entry], partial: bool) -> None:
    """Remove what does not belong to the data set.

    Args:
        partial: the beginnings of files stay, for rsync to go on with.
    """
    for above, folders, names, folder in os.fwalk(".", topdown=False, dir_fd=files):
        inside = os.path.normpath(above)
        if partial and os.path.basename(inside) == PARTIAL:
            continue
        for name in names:
            path = os.path.normpath(os.path.join(inside, name))
            if path not in entries or not stat.S_ISREG(_mode(folder, name)):
                os.unlink(name, dir_fd=folder)
        for name in folders:
            if stat.S_ISLNK(_mode(folder, name)):
                os.unlink(name, dir_fd=folder)
            else:
                with suppress(OSError):  # something is in it
                    os.rmdir(name, dir_fd=folder)


def _give_to_root(files: int, place: int | None) -> None:
    """Make all of it root's, for everybody to read.

    A file that has a name elsewhere too, other than in place, is removed: it could be one that is
    not to change hands.
    """
    for above, _, names, folder in os.fwalk(".", dir_fd=files):
        # First the folder: from then on nobody else changes what is in it.
        os.fchown(folder, os.geteuid(), os.getegid())
        os.fchmod(folder, DIRECTORY_MODE)
        for name in names:
            descriptor = os.open(name, FILE, dir_fd=folder)
            try:
                about = os.fstat(descriptor)
                path = os.path.normpath(os.path.join(above, name))
                inode = None if place is None else _inode(place, path)
                if about.st_nlink > 1 and inode != (about.st_dev, about.st_ino):
                    os.unlink(name, dir_fd=folder)
                    continue
                os.fchown(descriptor, os.geteuid(), os.getegid())
                os.fchmod(descriptor, FILE_MODE)
            finally:
                os.close(descriptor)
