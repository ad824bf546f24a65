"""Unpacks an archive of data on the control node, whoever made it.

An archive is read twice: the first time all of it is checked and measured, so that nothing is
written of one that is broken, leads out of its folder or has no room. Files are written into a new
folder. Links are made last, when nothing is written through them any more; who lists the files sees
whether they lead out. What the desktops of macOS and Windows put into every archive is
passed over, and names from them are read as their makers saw them.
"""

from __future__ import annotations

import errno
import lzma
import os
import re
import shutil
import stat
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, NamedTuple

from .files import CHUNK, DataError, leads_down, shown, size_shown

TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
ZSTD = (".tar.zst", ".tzst")
ZIP = (".zip",)
# What nothing here unpacks: of 7-Zip, WinRAR, WinZip and macOS, of other packers, and parts
FOREIGN = (
    *(".7z", ".rar", ".zipx", ".dmg", ".tar.lz4", ".tar.z", ".tar.lzma"),
    *(".001", ".z01", ".tar.aa", ".tar.gz.aa", ".tgz.aa"),
)

REMEDY = "unpack it, and give SOURCE= the folder"

# What an archive that is cut short or damaged brings about in the modules that read it.
BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    ValueError,
    OSError,
)
# The file system's words for names that stand in each other's way.
ODD = (errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)
# Of a link, in bytes (PATH_MAX): a zip has its target as content, which may have any size.
MOST_TARGET = 4096
# Of a zip: bits of a member's flags.
ENCRYPTED, NAMES_IN_UTF8 = 0x1, 0x800

# What desktops write for themselves. macOS adds a file "._name" to each that has attributes.
DESKTOP_FILES = frozenset(
    {".DS_Store", ".localized", "Icon\r", "Thumbs.db", "ehthumbs.db", "desktop.ini"}
)
DESKTOP_FOLDERS = frozenset(
    {
        *("__MACOSX", ".Spotlight-V100", ".Trashes", ".fseventsd", "@eaDir"),
        *(".AppleDouble", ".TemporaryItems", ".DocumentRevisions-V100"),
        *("$RECYCLE.BIN", "System Volume Information"),
    }
)
ZONE, DOUBLE = ":Zone.Identifier", "._"
# Encodings of Windows and DOS that names in a zip may have which does not say it: how such names
# look then, in which rows of the encoding its usual characters are, and from which second byte on.
# One character alone in front of a Latin letter is an accented one of CP437 and the one after it.
_NO_ACCENT = "(?s)(?!.*(?<![^\0-~])[^\0-~][A-Za-z])"
_MARKS = "\u3000-\u303f\uff01-\uff0f\uff1a-\uff20"
ENCODINGS = {
    "cp932": (f"[\0-~{_MARKS}\u3041-\u30ff\u4e00-\u9fff]+", range(0x81, 0x99), 0),
    "gb18030": (f"[\0-~{_MARKS}\u4e00-\u9fff]+", range(0xA1, 0xD8), 0xA1),
    "big5": (f"[\0-~{_MARKS}\u4e00-\u9fff]+", range(0xA1, 0xC7), 0),
    "cp949": (f"[\0-~{_MARKS}\uac00-\ud7a3]+", range(0xA1, 0xC9), 0xA1),
    "cp866": ("(?=.*[\u0430-\u044f]{2})[\0-~\u0401\u0410-\u044f\u0451]+", range(256), 0),
}
# Usual syllables of Korean, in Unicode's order: most bytes of Korean could be Chinese as well.
KOREAN = frozenset(
    "가각간감강개거검견결경계고공과관교구국굴그글기김나난남내녀노는능단당대더데도독동드등디라"
    "람래량러력련로록료류름리린림마만말면명모목무문물미민바박반발번별병보복본부분비사산상새색"
    "생서선설성세소속수순술스습시식신실심아안양어억언얼업에여역연영예오온와외요용우운울원월위"
    "유육은음의이인일임입자작장재저적전정제조종주준중증지직진집차참책처천청체초추축출치카크타"
    "태터테토통트특파판펴편평포폴표품프피하학한함합해행험현형호화확환활회후훈"
)

FILE, FOLDER, LINK, COPY = "file", "folder", "link", "copy"


class Member(NamedTuple):
    """A member of an archive.

    Attributes:
        name: as the archive has it, without "./" in front and "/" behind.
        kind: FILE, FOLDER, LINK, or COPY of an earlier one.
        size: bytes, unpacked.
    """

    name: str
    kind: str
    size: int
    target: str
    content: Callable[[], IO[bytes]]


def is_archive(name: str) -> bool:
    """Tell by its name whether a file is an archive; many formats of data are zip files inside."""
    return name.lower().endswith(TAR + ZSTD + ZIP + FOREIGN)


def unpack(archive: str, folder: str) -> None:
    """Unpack an archive into a new folder.

    Raises:
        DataError: it is broken or encrypted, a member leads out of it, or there is no room.
    """
    with _told(archive):
        total = files = 0
        for member in _members(archive):
            total += member.size
            files += member.kind == FILE
        if not files:
            raise DataError(f"{archive}: there is no file in it")
        check_room(os.path.dirname(folder), total, f"to unpack {os.path.basename(archive)}")
        os.mkdir(folder)
        links, doubles = [], []
        for member in _members(archive):
            path = os.path.join(folder, member.name)
            if os.path.basename(path).startswith(DOUBLE):
                doubles.append(path)
            os.makedirs(path if member.kind == FOLDER else os.path.dirname(path), exist_ok=True)
            if member.kind == FILE:
                _write(member, path)
            elif member.kind == COPY:
                os.link(os.path.join(folder, member.target), path)
            elif member.kind == LINK:
                links.append((member.target, path))
        for target, path in links:
            os.symlink(target, path)
        for path in doubles:
            of = os.path.join(os.path.dirname(path), os.path.basename(path)[len(DOUBLE) :])
            if os.path.lexists(of) and os.path.isfile(path):
                os.unlink(path)


def check_room(folder: str, size: int, purpose: str) -> None:
    """See that a folder of this machine has room.

    Raises:
        DataError: it has not; the message has the figures.
    """
    about = os.statvfs(folder)
    free = about.f_bavail * about.f_frsize
    if size > free:
        raise DataError(
            f"{folder} on the control node has {size_shown(free)} free, and {purpose} takes "
            f"{size_shown(size)}: make room there, or use another dataset_cache"
        )


def _write(member: Member, path: str) -> None:
    """Write a file that may have been there already: of a name that comes twice the last counts."""
    if os.path.lexists(path):
        os.unlink(path)
    with member.content() as content, open(path, "xb") as file:
        shutil.copyfileobj(content, file, CHUNK)
        if file.tell() != member.size:
            raise EOFError(f"{member.name} is cut short")


@contextmanager
def _told(archive: str) -> Iterator[None]:
    """Make a DataError, which names the archive, of an error that a broken one causes."""
    try:
        yield
    except NotImplementedError as error:  # as Windows packs files of more than 2 GB (Deflate64)
        raise DataError(f"{archive} is packed in an unusual way ({error}): {REMEDY}") from error
    except BROKEN as error:
        if isinstance(error, OSError) and error.errno not in (None, *ODD):
            raise
        raise DataError(
            f"{archive} is broken, or no archive of its name: {error}; fetch it again"
        ) from error


def _members(archive: str) -> Iterator[Member]:
    """Yield the members of an archive, each checked."""
    name = archive.lower()
    if name.endswith(FOREIGN):
        raise DataError(f"{archive} is an archive of another kind: {REMEDY}")
    reader = _of_zip if name.endswith(ZIP) else _of_zstd if name.endswith(ZSTD) else _of_tar
    for member in reader(archive):
        parts = member.name.split("/")
        if member.name in ("", ".") or parts[-1] in DESKTOP_FILES or parts[-1].endswith(ZONE):
            continue
        if not DESKTOP_FOLDERS.isdisjoint(parts):
            continue
        for path in (member.name, *([member.target] if member.kind == COPY else [])):
            if not leads_down(path):
                raise DataError(
                    f"{archive}: {shown(path)} leads out of the folder that it is unpacked in; "
                    "do not trust its maker, or pack it again with plain names"
                )
        yield member


def _of_tar(archive: str) -> Iterator[Member]:
    with tarfile.open(archive, "r:*") as packed:
        yield from _of_open_tar(archive, packed)
        # To tarfile an archive that is cut between two members is whole; a block of zeros ends it.
        stream = packed.fileobj
        assert stream is not None
        stream.seek(packed.offset)
        if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
            raise EOFError("it is cut short")
        while stream.read(CHUNK):
            pass  # to the end, where a compressed file has its checksum


def _of_zstd(archive: str) -> Iterator[Member]:
    with _decompressed(archive) as stream, tarfile.open(fileobj=stream, mode="r|") as packed:
        yield from _of_open_tar(archive, packed)
        while stream.read(CHUNK):
            pass  # to the end, or zstd is stopped before it has checked all


@contextmanager
def _decompressed(archive: str) -> Iterator[IO[bytes]]:
    """The content of a file of zstd, by its program: Python has no module of it before 3.14."""
    try:
        process = subprocess.Popen(
            ["zstd", "--decompress", "--stdout", "--quiet", archive],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except FileNotFoundError:
        raise DataError(
            f"{archive}: the control node has no program zstd: install its package, or pack it "
            "with gzip"
        ) from None
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            yield process.stdout
        finally:
            process.stdout.close()
            said = process.stderr.read().decode(errors="replace").strip()
        if process.wait() != 0:
            raise EOFError(said)


def _of_open_tar(archive: str, packed: tarfile.TarFile) -> Iterator[Member]:
    for info in packed:
        if info.isfile():
            kind = FILE
        elif info.isdir():
            kind = FOLDER
        elif info.issym():
            kind = LINK
        elif info.islnk():
            kind = COPY
        else:
            raise DataError(
                f"{archive}: {shown(info.name)} is a device or a pipe; pack it again without"
            )
        target = _plain(info.linkname) if kind == COPY else info.linkname

        def content(info: tarfile.TarInfo = info) -> IO[bytes]:
            opened = packed.extractfile(info)
            if opened is None:
                raise tarfile.ReadError(f"{info.name} has no content")
            return opened

        yield Member(_plain(info.name), kind, info.size if kind == FILE else 0, target, content)


def _of_zip(archive: str) -> Iterator[Member]:
    with zipfile.ZipFile(archive, metadata_encoding=_encoding_of_names(archive)) as packed:
        for info in packed.infolist():
            if info.flag_bits & ENCRYPTED:
                raise DataError(f"{archive} is encrypted: {REMEDY}")
            kind, target = FILE, ""
            name = info.filename.replace("\\", "/")  # as older programs of Windows part them
            if name.endswith("/"):
                kind = FOLDER
            elif stat.S_ISLNK(info.external_attr >> 16):
                with packed.open(info) as link:
                    # One that is longer is none that a file system takes.
                    kind, target = LINK, os.fsdecode(link.read(MOST_TARGET))

            def content(info: zipfile.ZipInfo = info) -> IO[bytes]:
                return packed.open(info)

            size = info.file_size if kind == FILE else 0
            yield Member(_plain(name), kind, size, target, content)


def _encoding_of_names(archive: str) -> str | None:
    """Tell the encoding of those names in a zip that are not marked as UTF-8; None for CP437.

    That of DOS is the usual one. macOS writes UTF-8 without the mark, and Windows in Japan, China,
    Taiwan, Korea and Russia its own. Names may be valid in several of these, but mostly in one
    alone their characters are usual ones.
    """
    with zipfile.ZipFile(archive) as packed:
        names = [each.filename for each in packed.infolist() if not each.flag_bits & NAMES_IN_UTF8]
    written = "".join(names).encode("cp437", "ignore")
    found, best = None, 0.5
    with suppress(UnicodeDecodeError):
        written.decode()
        return "utf-8"
    for encoding, (expected, rows, second) in ENCODINGS.items():
        with suppress(UnicodeDecodeError):
            text = written.decode(encoding)
            foreign = {char for char in text if char > "~"}
            if not re.fullmatch(_NO_ACCENT + expected, text):
                continue
            is_korean = encoding == "cp949" and len(foreign & KOREAN) > len(foreign) / 2
            if encoding == "cp949" and not is_korean:
                continue
            codes = [char.encode(encoding) for char in foreign]
            usual = sum(code[0] in rows and code[-1] >= second for code in codes) / len(codes)
            if usual > best or (is_korean and usual == best):
                found, best = encoding, usual
    return found


def _plain(name: str) -> str:
    """A name without what stands for the archive's own folder, and without a folder's last "/"."""
    while name.startswith("./"):
        name = name[2:].lstrip("/")
    return name[:-1] if name.endswith("/") and name != "/" else name
