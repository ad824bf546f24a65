"""A flat repository of packages: what its list names."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

LIST = "Packages"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+~%:_-]*\.deb")


class BundleError(Exception):
    """The repository is not as it must be; the message says why."""


@dataclass(frozen=True)
class Package:
    """A file of the repository: its name, bytes, and SHA-256."""

    name: str
    size: int
    sha256: str


def read_list(text: str) -> list[Package]:
    """Return the files that a list names.

    Raises:
        BundleError: a file is not beside the list, or has neither size nor hash.
    """
    packages = []
    for stanza in re.split(r"\n[ \t]*\n", text):
        fields = dict(re.findall(r"^(Filename|Size|SHA256):\s*(\S+)", stanza, re.MULTILINE))
        if not stanza.strip():
            continue
        name = fields.get("Filename", "").removeprefix("./")
        if not NAME.fullmatch(name):
            raise BundleError(f"{LIST} names the file {name!r}, and it must be one beside it")
        if not re.fullmatch(r"\d+", fields.get("Size", "")) or "SHA256" not in fields:
            raise BundleError(f"{LIST} has no Size or no SHA256 of {name}")
        packages.append(Package(name, int(fields["Size"]), fields["SHA256"]))
    return packages


def identity(folder: Path) -> str:
    """Return the hash of a repository's list, which has those of its packages; nothing without."""
    try:
        return hashlib.sha256((folder / LIST).read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""


def sizes(folder: Path) -> dict[str, int]:
    """Return the bytes of each file of a folder, by name; none where it is missing."""
    if not folder.is_dir():
        return {}
    return {file.name: file.lstat().st_size for file in folder.iterdir()}


def sha256(file: Path) -> str:
    """Return the hash of a file."""
    with file.open("rb") as opened:
        digest = hashlib.sha256()
        while block := opened.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
