"""The copy of a project that a run keeps, and that goes to its nodes."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from yard.code.files import Files, SourceFile
from yard.core.errors import RequestError

# Of a run directory.
FOLDER = "code"

# Read at once.
CHUNK = 1 << 20


@dataclass(frozen=True)
class Snapshot:
    """What was copied.

    Attributes:
        sha256: over path, whether it is executable, and the hash of the content of each file.
    """

    folder: Path
    files: int
    bytes: int
    sha256: str


def take_snapshot(files: Files, folder: Path) -> Snapshot:
    """Copy the files that travel to a new folder, with their times and whether they can be run.

    Raises:
        RequestError: one of them is gone or may not be read any more.
    """
    folder.mkdir()
    whole = hashlib.sha256()
    total = 0
    for path, file in files.travelling.items():
        try:
            content, executable, written = _copy(file, folder / path)
        except (FileNotFoundError, PermissionError) as error:
            raise RequestError(f"{path} changed while it was copied: {error.strerror}") from error
        whole.update(f"{path}\0{int(executable)}\0{content}\n".encode())
        total += written
    return Snapshot(folder, len(files.travelling), total, whole.hexdigest())


def _copy(file: SourceFile, target: Path) -> tuple[str, bool, int]:
    """Copy a file; returns the hash of its content, whether it is executable, and its bytes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    content = hashlib.sha256()
    written = 0
    with file.source.open("rb") as source, target.open("xb") as copy:
        while part := source.read(CHUNK):
            content.update(part)
            written += copy.write(part)
        info = os.fstat(source.fileno())
    executable = bool(info.st_mode & 0o111)
    target.chmod(0o755 if executable else 0o644)
    os.utime(target, ns=(info.st_mtime_ns, info.st_mtime_ns))
    return content.hexdigest(), executable, written
