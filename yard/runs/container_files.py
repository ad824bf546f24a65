"""`failures/container-<host>.json`: what a program wrote to places that end with its container."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yard.core.files import read_list
from yard.core.words import plural, size

# Of one node; a rank can write anything there.
MOST = 8
PATH_CHARACTERS = 200
MOST_BYTES = 1 << 60


@dataclass(frozen=True)
class ContainerFiles:
    """A file or folder of a container.

    Attributes:
        size: bytes of its files.
        home: where it came home, relative to the run directory; "" where it did not.
    """

    host: str
    path: str
    files: int
    size: int
    home: str

    @property
    def text(self) -> str:
        """What people read of it."""
        here = f"the copy is {self.home}" if self.home else "nothing of it was collected"
        return (
            f"the program wrote {plural(self.files, 'file')} of {size(self.size)} to {self.path} "
            f"on {self.host}, which ends with the container; {here}. Have it write to "
            "$TRAINYARD_OUTPUT_DIR, which is collected"
        )


def read_container_files(run: Path, hosts: Collection[str]) -> tuple[ContainerFiles, ...]:
    """What the nodes of a run noted; nothing of other hosts, or of another form.

    Of what all nodes have in one place, that of the first which has it.
    """
    found: list[ContainerFiles] = []
    for host in hosts:
        entries = read_list(run / "failures" / f"container-{host}.json")
        found += [_parse(run, host, entry) for entry in entries[:MOST] if _is_whole(entry)]
    first: dict[str, ContainerFiles] = {}
    for files in found:
        first.setdefault(files.path, files)
    return tuple(first.values())


def _is_whole(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("path"), str)
        and entry["path"].startswith("/")
        and ".." not in entry["path"].split("/")
        and entry["path"].isprintable()
        and len(entry["path"]) <= PATH_CHARACTERS
        and all(
            type(entry.get(name)) is int and 0 < entry[name] < MOST_BYTES
            for name in ("files", "bytes")
        )
    )


def _parse(run: Path, host: str, entry: dict[str, Any]) -> ContainerFiles:
    path = entry["path"]
    # Those of the first node are not below its name.
    places = [f"{above}outputs/left-in-container{path}" for above in (f"nodes/{host}/", "")]
    home = next((place for place in places if (run / place).exists()), "")
    return ContainerFiles(host, path, entry["files"], entry["bytes"], home)
