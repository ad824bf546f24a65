"""The code of a run as a list, path to object, and what is sent of it.

An object is a file's content; its name is the SHA-256 of that, with "x" behind it where the file
can be executed.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from typing import IO

CHUNK = 1 << 20
# What tools leave beside sources: byte code, and the links by which Emacs locks a file.
IGNORED = {".git", "__pycache__"}
LOCK = ".#"

# Path below a folder of code, with "/" between the names, to object.
Listing = Mapping[str, str]


class CodeError(Exception):
    """The code cannot be sent as it is; the message says why."""


def list_code(folder: str) -> dict[str, str]:
    """List a folder of code.

    Raises:
        CodeError: there is none, or it holds a link or something else that is no plain file.
    """
    if not os.path.isdir(folder):
        raise CodeError(f"there is no folder {folder}")
    listing = {}
    for path in _files(folder):
        with open(path, "rb") as file:
            digest = digest_of(file)
        executable = os.stat(path).st_mode & 0o100
        listing[os.path.relpath(path, folder)] = digest + ("x" if executable else "")
    return dict(sorted(listing.items()))


def _files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in IGNORED or entry.name.startswith(LOCK):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            elif entry.is_file(follow_symlinks=False):
                yield entry.path
            else:
                raise CodeError(f"{entry.path} is no plain file")


def pack(folders: Mapping[str, Listing], wanted: Iterable[str], archive: IO[bytes]) -> None:
    """Write objects into an archive, from `folders` of this machine and what is listed of each."""
    left = set(wanted)
    with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=3) as packed:
        for folder, listing in folders.items():
            for path, name in listing.items():
                if name in left:
                    left.remove(name)
                    packed.add(os.path.join(folder, path), arcname=name, recursive=False)


def digest_of(file: IO[bytes]) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
