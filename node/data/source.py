"""A user's own data on the control node: where it is, fetched and unpacked where that is needed.

What was fetched or unpacked is kept below `cache` under the SHA-256 of what came, and so is neither
fetched nor unpacked twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import urllib.parse
from typing import Any, NamedTuple

from .archive import is_archive, unpack
from .fetch import check_url, fetch, plain_url
from .files import DataError, digest_of, find_files, shown

# As torchvision's datasets.folder.IMG_EXTENSIONS, which the trainer goes by
IMAGES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
SCHEMES = ("http://", "https://")
REMEDY = "SOURCE= takes a folder, an archive or another file of this machine, or its address"


class Had(NamedTuple):
    """Data on this machine.

    Attributes:
        folder: the folder with its files; or a file, where that is all.
        sha256: of the archive or file that it came as; empty for a folder.
        images: whether image files are in folders of it.
    """

    folder: str
    sha256: str = ""
    changed: bool = False
    images: bool = False


def have(source: str, cache: str, sha256: str = "", kept: bool = False) -> Had:
    """Have the data on this machine, and see that it can travel.

    Args:
        sha256: what the file or archive must be; empty where nobody knows.
        kept: take what was fetched from an address before, without asking the server.

    Raises:
        DataError: it cannot be had, or cannot travel.
        OSError: it cannot be written.
    """
    if source.startswith(SCHEMES):
        had = _from_address(source, cache, sha256, kept)
    elif os.path.isfile(source):
        had = _from_file(source, cache, sha256)
    elif not os.path.isdir(source):
        raise DataError(f"there is no folder or file {shown(source)} on the control node. {REMEDY}")
    elif sha256:
        raise DataError("SHA256= is of a file or an archive, and SOURCE= is a folder")
    else:
        had = Had(os.path.abspath(source))
    _, paths = find_files(had.folder)
    return had._replace(images=any("/" in path and path.lower().endswith(IMAGES) for path in paths))


def _from_file(source: str, cache: str, sha256: str) -> Had:
    try:
        with open(source, "rb") as file:
            digest = digest_of(file)
    except OSError as error:
        raise DataError(f"{shown(source)} cannot be read: {error.strerror}") from error
    if sha256 and digest != sha256:
        raise DataError(
            f"{shown(source)} has the SHA-256 {digest}, and not {sha256}: another file, or a "
            "damaged one"
        )
    if not is_archive(source):
        return Had(os.path.abspath(source), digest)
    return _unpacked(source, cache, digest)


def _from_address(url: str, cache: str, sha256: str, kept: bool) -> Had:
    check_url(url)
    name = _name_of(url)
    notes = os.path.join(cache, "fetched", hashlib.sha256(url.encode()).hexdigest())
    known = _read_notes(f"{notes}.json")
    if known and not os.path.isdir(_kept(cache, known["sha256"], name)):
        known = {}
    expected = sha256 or (known["sha256"] if known and kept else "")
    if expected and os.path.isdir(_kept(cache, expected, name)):
        return Had(_top(_kept(cache, expected, name)), expected)
    fetched = fetch(url, notes, sha256, known)
    if fetched.path is None:
        had = Had(_top(_kept(cache, fetched.sha256, name)), fetched.sha256)
    else:
        whole = os.path.join(notes, name)
        os.replace(fetched.path, whole)
        try:
            had = (_unpacked if is_archive(name) else _moved)(whole, cache, fetched.sha256)
        except DataError as error:
            # The message names a file of the cache, which is gone by now.
            raise DataError(str(error).replace(whole, plain_url(url))) from error
        finally:
            # Of a whole file nothing is left to go on with.
            shutil.rmtree(notes)
    _write_notes(f"{notes}.json", {"sha256": fetched.sha256, "mark": fetched.mark})
    return had


def _unpacked(archive: str, cache: str, digest: str) -> Had:
    folder = _kept(cache, digest, archive)
    if os.path.isdir(folder):
        return Had(_top(folder), digest)
    scratch = f"{folder}.{os.getpid()}"
    os.makedirs(cache, exist_ok=True)
    try:
        unpack(archive, scratch)
        try:
            find_files(_top(scratch))
        except DataError as error:
            raise DataError(str(error).replace(_top(scratch), archive)) from error
        os.replace(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Had(_top(folder), digest, changed=True)


def _moved(file: str, cache: str, digest: str) -> Had:
    folder = _kept(cache, digest, file)
    if not os.path.isdir(folder):
        scratch = f"{folder}.{os.getpid()}"
        os.makedirs(scratch)
        os.replace(file, os.path.join(scratch, os.path.basename(file)))
        os.replace(scratch, folder)
    return Had(folder, digest, changed=True)


def _kept(cache: str, digest: str, name: str) -> str:
    """Where something is kept: the same bytes are another thing as an archive than as a file."""
    if is_archive(name):
        return os.path.join(cache, digest)
    # A file is kept under its own name.
    named = hashlib.sha256(os.fsencode(os.path.basename(name))).hexdigest()
    return os.path.join(cache, f"{digest}-{named[:8]}")


def _top(folder: str) -> str:
    """The folder that an archive has in it, where it has that alone; else the one it was put in."""
    names = os.listdir(folder)
    inner = os.path.join(folder, names[0]) if len(names) == 1 else folder
    return inner if os.path.isdir(inner) and not os.path.islink(inner) else folder


def _name_of(url: str) -> str:
    name = urllib.parse.unquote(urllib.parse.urlsplit(url).path).rpartition("/")[2]
    return name if name.isprintable() and name not in ("", ".", "..") else "data"


def _read_notes(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            notes = dict(json.load(file))
    except (OSError, ValueError):
        return {}
    return notes if {"sha256", "mark"} <= set(notes) else {}


def _write_notes(path: str, notes: dict[str, Any]) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(notes, file)
