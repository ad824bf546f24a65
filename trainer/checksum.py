"""Checksums of files."""

import hashlib
from pathlib import Path


def file_checksum(path: Path, algorithm: str) -> str:
    """A file's checksum in hexadecimal; `algorithm` is "sha256", "md5", ..."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()
