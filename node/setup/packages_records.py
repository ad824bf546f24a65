"""What dpkg has installed, and the records of which packages came with which role."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# One file a role, of its name: a package a line, in blocks between comments.
DIRECTORY = Path("/var/lib/trainyard/packages")
LIST_COMMAND = [
    "dpkg-query",
    "--show",
    "--showformat=${Package}\t${Architecture}\t${Version}\t${db:Status-Status}\n",
]


@dataclass(frozen=True)
class Package:
    """A package that dpkg knows; status is dpkg's word, such as installed or config-files."""

    name: str
    architecture: str
    version: str
    status: str


def output_of(command: Sequence[str]) -> str:
    """Run a command and return what it printed.

    Raises:
        RuntimeError: it failed; the message is what it wrote to stderr.
    """
    # apt-get's words are read, so they must not be translated.
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        answer = subprocess.run(command, capture_output=True, text=True, env=environment)
    except FileNotFoundError as error:
        raise RuntimeError(f"there is no {command[0]}: this is no Debian or Ubuntu") from error
    if answer.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed: {answer.stderr.strip()}")
    return answer.stdout


def parse_packages(text: str) -> list[Package]:
    """Return the packages of LIST_COMMAND's output."""
    return [Package(*line.split("\t")) for line in text.splitlines()]


def names_with(status: str, packages: Iterable[Package]) -> list[str]:
    """Return the sorted names of the packages with this status."""
    return sorted({package.name for package in packages if package.status == status})


def missing_requests(
    requests: Iterable[str], packages: Iterable[Package], native: str
) -> list[str]:
    """Return the requests that no installed package satisfies.

    A name that another package provides counts as missing: then apt decides.

    Args:
        requests: NAME, NAME:ARCHITECTURE, and each with =VERSION behind it, * allowed in VERSION.
        native: the machine's architecture, which a NAME alone means.
    """
    installed: dict[str, list[Package]] = {}
    for package in packages:
        if package.status == "installed":
            installed.setdefault(package.name, []).append(package)

    def satisfied(request: str) -> bool:
        label, _, version = request.partition("=")
        name, _, architecture = label.partition(":")
        return any(
            package.architecture in (architecture or native, "all")
            and (not version or fnmatch.fnmatchcase(package.version, version))
            for package in installed.get(name, [])
        )

    return [request for request in requests if not satisfied(request)]


def bare_name(request: str) -> str:
    """Return the package's name out of NAME:ARCHITECTURE=VERSION."""
    return re.split("[:=]", request, maxsplit=1)[0]


def parse_record(text: str) -> list[str]:
    """Return the packages of a record's text."""
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def with_block(text: str, names: Iterable[str]) -> str:
    """Return a record's text with one more block, whose markers are made from what is in it."""
    lines = sorted(set(names))
    label = hashlib.sha256(str(lines).encode()).hexdigest()
    if text and not text.endswith("\n"):
        text += "\n"
    return "\n".join([f"{text}# BEGIN {label}", *lines, f"# END {label}", ""])


def read_records(directory: Path) -> dict[str, list[str]]:
    """Return the packages of every record, by the role's name."""
    if not directory.is_dir():
        return {}
    return {
        file.name: parse_record(file.read_text(encoding="utf-8"))
        for file in sorted(directory.iterdir())
    }


def records_of_others(records: Mapping[str, Sequence[str]], owner: str) -> set[str]:
    """Return the packages that are in the record of any other role."""
    return {name for other, names in records.items() if other != owner for name in names}


def packages_to_share(
    owner: str, requests: Iterable[str], records: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return what a role needs and another one brought.

    Both records are to have it: it goes with the last of the two, whichever that is.
    """
    names = {bare_name(request) for request in requests}
    return sorted((names & records_of_others(records, owner)) - set(records.get(owner, [])))


def unsettled(owner: str, requests: Sequence[str]) -> list[str]:
    """Return the requests that are not installed, and those that the owner's record lacks.

    Without any, the action `packages` would change nothing on this machine.

    Raises:
        RuntimeError: dpkg does not tell what is installed.
    """
    packages = parse_packages(output_of(LIST_COMMAND))
    native = output_of(["dpkg", "--print-architecture"]).strip()
    missing = missing_requests(requests, packages, native)
    return missing + packages_to_share(owner, requests, read_records(DIRECTORY))


def parse_removals(text: str) -> list[str]:
    """Return the packages that `apt-get --simulate` would remove, from its output."""
    return re.findall(r"^(?:Remv|Purg) (\S+)", text, re.MULTILINE)


def empty_directories(root: Path) -> list[Path]:
    """Return the directories under root, and root itself, that hold no file, the deepest first."""
    empty: list[Path] = []
    for directory, names, files in os.walk(root, topdown=False):
        path = Path(directory)
        if not files and all(path / name in empty for name in names):
            empty.append(path)
    return empty
