"""Which files of a folder are being written, and which are not."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

# Seconds without a change after which a file counts as written.
SETTLED = 3.0
# Of a folder with more files only so many are told apart: a program can make any number of them.
MOST_FILES = 10_000


class FileMark(NamedTuple):
    """What is another one when a file has been written.

    Attributes:
        device, number: of the file.
        size: bytes.
        written: when, nanoseconds.
        target: where a link leads; "" of a file.
    """

    device: int
    number: int
    size: int
    written: int
    target: str


@dataclass
class FileMarks:
    """Tells from look to look which files of a folder have changed.

    Times are those of the looks, so that a clock that is set changes nothing.

    Attributes:
        folder: plain files and links in it are looked at, in folders of it too; none whose name
            begins with a dot, which is how files are called that are being written.
        pattern: which of them are looked at, a pattern for each name of a path; what is in a folder
            that matches all of it is looked at too. Empty: all.
    """

    folder: Path
    pattern: Sequence[str] = ()
    _seen: dict[str, tuple[FileMark, float]] = field(default_factory=dict)
    _looked_at: float = 0.0

    def look(self, now: float) -> None:
        """Look at all files; `now` is in monotonic seconds."""
        before, self._seen = self._seen, {}
        for path, mark in _marks(str(self.folder), self.pattern):
            old = before.get(path)
            self._seen[path] = old if old is not None and old[0] == mark else (mark, now)
            if len(self._seen) == MOST_FILES:
                break
        self._looked_at = now

    def settled(self) -> dict[str, FileMark]:
        """The files that have not changed for a while, by path below the folder."""
        return {path: mark for path, (mark, since) in self._seen.items() if self._is_settled(since)}

    def unsettled(self) -> list[str]:
        """The others."""
        return [path for path, (_, since) in self._seen.items() if not self._is_settled(since)]

    def _is_settled(self, since: float) -> bool:
        return self._looked_at - since >= SETTLED


def _marks(folder: str, pattern: Sequence[str]) -> Iterator[tuple[str, FileMark]]:
    for above, folders, names in os.walk(folder):
        inner = () if above == folder else tuple(os.path.relpath(above, folder).split(os.sep))
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".") and _leads_to_match((*inner, name), pattern)
        ]
        for name in names:
            if len(inner) + 1 < len(pattern) or not _leads_to_match((*inner, name), pattern):
                continue
            path = os.path.join(above, name)
            try:
                found = os.lstat(path)
                target = os.readlink(path) if stat.S_ISLNK(found.st_mode) else ""
            except OSError:
                continue  # gone meanwhile
            if not name.startswith(".") and (target or stat.S_ISREG(found.st_mode)):
                yield (
                    os.path.relpath(path, folder),
                    FileMark(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, target),
                )


def _leads_to_match(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path matches as many names of a pattern as both have."""
    return all(fnmatchcase(name, part) for name, part in zip(names, pattern, strict=False))
