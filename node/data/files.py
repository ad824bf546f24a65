"""The files of a data set: found in a folder, and listed with their checksums in a manifest.

A manifest is a file of lines of JSON, `[path, bytes, time in nanoseconds, SHA-256]`, in the order
of the paths. A data set may have millions of files: the manifest travels as a file, never as the
argument of a module.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import IO, NamedTuple, TypeVar

from ..failure import VerbError

CHUNK = 1 << 20
# Reading and hashing leave Python's lock; more threads than this wait for the disk alone.
THREADS = min(8, os.cpu_count() or 1)
# So many files are under way at once: a million futures would take a gigabyte.
BATCH = 4096
# So many problems are told; a folder may have one a file.
TOLD = 10

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class DataError(VerbError):
    """The data cannot be had or put; the message says why, and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__("failed", message=message)

    def __str__(self) -> str:
        return str(self.values["message"])


@contextmanager
def told_of(what: str) -> Iterator[None]:
    """Say it of a disk that does not do as it is told.

    Args:
        what: could not be done: the beginning of a sentence.

    Raises:
        DataError: an OSError came.
    """
    try:
        yield
    except OSError as error:
        raise DataError(f"{what}: {error}") from error


class Entry(NamedTuple):
    """A file of a data set.

    Attributes:
        path: below the data set's folder, with "/" between the names.
        size: bytes.
        mtime: nanoseconds since 1970.
        sha256: in hexadecimal digits.
    """

    path: str
    size: int
    mtime: int
    sha256: str


def find_files(source: str) -> tuple[str, list[str]]:
    """Return the folder that is sent, and the paths of its files below it.

    Args:
        source: a folder, or a file that is the whole data set.

    Raises:
        DataError: it is empty, or holds what cannot travel.
    """
    if os.path.isfile(source):
        return os.path.dirname(os.path.abspath(source)), [os.path.basename(source)]
    root = os.path.realpath(source)
    paths: list[str] = []
    links: list[str] = []
    problems: list[str] = []
    for path, mode in _walk(root, problems):
        if stat.S_ISLNK(mode):
            links.append(path)
        elif not stat.S_ISREG(mode):
            problems.append(f"{shown(path)} is {_kind(mode)}, which cannot travel; remove it")
        elif not os.access(os.path.join(root, path), os.R_OK):
            problems.append(f"{shown(path)} may not be read; change its mode")
        else:
            paths.append(path)
    paths += _through_links(root, links, tuple(paths), problems)
    if problems:
        more = [f"and {len(problems) - TOLD} more"] if len(problems) > TOLD else []
        raise DataError("\n".join([f"{shown(source)}:", *problems[:TOLD], *more]))
    if not paths:
        raise DataError(f"{shown(source)}: there is no file in it")
    return root, sorted(paths)


def _walk(root: str, problems: list[str]) -> Iterator[tuple[str, int]]:
    """Yield the path and mode of all that is no folder."""
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as entries:
                for entry in entries:
                    path = os.path.join(folder, entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(path)
                    else:
                        yield path, entry.stat(follow_symlinks=False).st_mode
        except PermissionError:
            problems.append(f"{shown(folder) or root} may not be read; change its mode")


def _through_links(
    root: str, links: Sequence[str], plain: Sequence[str], problems: list[str]
) -> list[str]:
    """The paths that links in the folder stand for; what they point at goes as a copy."""
    files: list[str] = []
    folders: list[tuple[str, str]] = []
    for path in links:
        target = os.path.realpath(os.path.join(root, path))
        said = f"{shown(path)} is a link to {shown(os.readlink(os.path.join(root, path)))}"
        if not os.path.exists(target):
            problems.append(f"{said}, which is not there; remove it")
        elif not target.startswith(root + "/"):
            problems.append(
                f"{said}, out of the folder; replace it with a copy of its target (cp --recursive "
                "--dereference copies a folder so)"
            )
        elif os.path.isfile(target):
            files.append(path)
        elif not os.path.isdir(target):
            problems.append(f"{said}, which cannot travel; remove it")
        elif path.startswith(inside := os.path.relpath(target, root) + "/"):
            problems.append(f"{said}, a folder that it is in itself; remove it")
        else:
            folders.append((path, inside))
    for path, inside in folders:
        # Of a link to a folder in such a folder no file would come, and nobody would see it.
        if any(other.startswith(inside) for other, _ in folders):
            problems.append(
                f"{shown(path)} is a link to a folder with such a link in it; put a copy in the "
                "place of one of them"
            )
    below = [
        f"{path}/{file[len(inside) :]}"
        for path, inside in folders
        for file in (*plain, *files)
        if file.startswith(inside)
    ]
    return [*files, *below]


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def shown(name: str) -> str:
    """A name of a file for people, escaped where it cannot be printed."""
    return name if name.isprintable() else ascii(name)


def size_shown(number: float) -> str:
    """Bytes for people, in powers of 1000."""
    value, units = float(number), ["bytes", "kB", "MB", "GB", "TB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.1f} {units[0]}" if value < 9.95 and value % 1 else f"{value:.0f} {units[0]}"


def digest_of(file: IO[bytes]) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def in_threads(work: Callable[[Item], Answer], items: Iterable[Item]) -> Iterator[Answer]:
    """Yield what `work` returns of each item, in their order; several are under way at once."""
    left = iter(items)
    with ThreadPoolExecutor(THREADS) as threads:
        while batch := list(islice(left, BATCH)):
            yield from threads.map(work, batch)


def list_files(root: str, paths: Iterable[str]) -> Iterator[Entry]:
    """Yield the entries of files, in their order.

    Raises:
        DataError: one changed or went while it was read.
    """

    def entry_of(path: str) -> Entry:
        try:
            with open(os.path.join(root, path), "rb") as file:
                about = os.fstat(file.fileno())
                digest = digest_of(file)
                if file.tell() != about.st_size:
                    raise DataError(f"{shown(path)} changed while it was read; try again")
        except OSError as error:
            raise DataError(f"{shown(path)}: {error.strerror}") from error
        return Entry(path, about.st_size, about.st_mtime_ns, digest)

    return in_threads(entry_of, paths)


def write_manifest(manifest: str, entries: Iterable[Entry]) -> tuple[int, int]:
    """Write a manifest, and beside it the list of paths that rsync takes; returns files and bytes.

    Raises:
        DataError: see `list_files`.
        OSError: they cannot be written.
    """
    files = total = 0
    os.makedirs(os.path.dirname(manifest), exist_ok=True)
    scratch = f"{manifest}.{os.getpid()}"
    try:
        with open(scratch, "w", encoding="ascii") as lines, open(f"{scratch}.0", "wb") as paths:
            for entry in entries:
                lines.write(json.dumps(entry) + "\n")
                paths.write(os.fsencode(entry.path) + b"\0")
                files += 1
                total += entry.size
        os.replace(f"{scratch}.0", f"{manifest}.paths")
        os.replace(scratch, manifest)
    finally:
        for left in (scratch, f"{scratch}.0"):
            if os.path.exists(left):
                os.unlink(left)
    return files, total


def read_manifest(manifest: str) -> dict[str, Entry]:
    """Read a manifest, by path.

    Raises:
        DataError: a path in it leads elsewhere than below the folder.
        OSError, ValueError: it cannot be read.
    """
    entries = {}
    with open(manifest, encoding="ascii") as lines:
        for line in lines:
            entry = Entry(*json.loads(line))
            if not leads_down(entry.path):
                raise DataError(f"{shown(entry.path)} is no path below a folder")
            entries[entry.path] = entry
    return entries


def leads_down(path: str) -> bool:
    """Tell whether a path leads to something below where it begins, without a detour."""
    return "\0" not in path and not {"", ".", ".."} & set(path.split("/"))
