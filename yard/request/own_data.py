"""Data of the users' own that was put on the nodes of an inventory, by name.

What a user brings is remembered in `.trainyard/<inventory>/data.json`, apart from the record of the
set-up: on machines it stays through a new set-up, and new nodes of a local cluster get it again.
"""

import posixpath
import re
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from yard.core.errors import RequestError
from yard.core.files import OWNER, read_object, write_json
from yard.core.project import Project
from yard.core.words import printable
from yard.plays.inventory import Dataset, Inventory

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
SHA256 = re.compile(r"[0-9a-f]{64}")
SCHEMES = ("http://", "https://")


@dataclass(frozen=True)
class OwnData:
    """Data of a user's own.

    Attributes:
        source: absolute path of a folder or file of the control node, or an HTTP address.
        sha256: what the user said of the file or archive; None where nothing was said.
        put: when it was put on the nodes, ISO 8601, UTC.
    """

    name: str
    source: str
    sha256: str | None
    put: str

    @property
    def shown(self) -> str:
        """Where it came from, as shown to people: what stands behind `?` may be a key."""
        return shown_source(self.source)

    @property
    def command(self) -> str:
        """What puts it on the nodes again."""
        return f"make data SOURCE={self.shown} NAME={self.name}"

    def extravars(self, kept: bool = False) -> dict[str, str | bool]:
        """The variables of playbooks/data.yml.

        Args:
            kept: take what was fetched before, where it is still here.
        """
        return {
            "dataset_name": self.name,
            "dataset_source": self.source,
            "dataset_sha256": self.sha256 or "",
            "dataset_kept": kept,
        }


def check_own_data(name: str, source: str | None, sha256: str | None, known: Inventory) -> OwnData:
    """Check what a user wants to put on the nodes, as far as it can be told before it is read.

    Raises:
        RequestError: with every problem found.
    """
    problems = []
    if not NAME.fullmatch(name):
        problems.append(
            f"NAME={name}: must begin with a letter or digit and have no more than 40 of "
            "a to z, 0 to 9, dot, hyphen and underscore"
        )
    elif name in known.datasets:
        problems.append(
            f"NAME={name}: is a data set that Trainyard knows (make data DATASET={name}); choose "
            "another name"
        )
    if sha256 is not None:
        sha256 = sha256.lower().removeprefix("sha256:")
        if not SHA256.fullmatch(sha256):
            problems.append(f"SHA256={sha256}: must be 64 digits of 0 to 9 and a to f")
    if not source:
        problems.append(
            f"NAME={name}: SOURCE= is missing: a folder, an archive or another file of this "
            "machine, or its HTTP address"
        )
    elif not source.startswith(SCHEMES):
        path = Path(source).expanduser().absolute()
        if not path.exists():
            problems.append(f"SOURCE={source}: there is no such file or folder on this machine")
        source = str(path)
    if problems or not source:
        raise RequestError(*problems)
    return OwnData(name, source, sha256, datetime.now(UTC).isoformat(timespec="seconds"))


def read_own_data(project: Project, inventory: Inventory) -> dict[str, OwnData]:
    """Read what has been put on the nodes of an inventory from here, by name."""
    remembered = read_object(_file(project, inventory))
    return {name: OwnData(name, **entry) for name, entry in remembered.items()}


def note_own_data(project: Project, inventory: Inventory, data: OwnData) -> None:
    """Remember what was put on the nodes. Others cannot read it: an address may be a key."""
    entry = asdict(data)
    del entry["name"]
    path = _file(project, inventory)
    write_json(path, {**read_object(path), data.name: entry}, OWNER)


def with_own_data(project: Project, inventory: Inventory) -> Inventory:
    """An inventory whose data sets are also those that users have put on its nodes."""
    own = read_own_data(project, inventory).values()
    datasets = {
        data.name: Dataset(data.name, f"from {data.shown}, {data.put}", own=True) for data in own
    }
    return replace(inventory, datasets={**datasets, **inventory.datasets})


def is_folder(dataset: str) -> bool:
    """Whether a request names its data by the absolute path of a folder of the nodes."""
    return dataset.startswith("/")


def folder_of_nodes(typed: str) -> str:
    """The folder of the nodes that a request names, without slashes at its end.

    Which nodes have it, and whether it may be mounted there, the check of the nodes says.

    Raises:
        RequestError: it is not written plainly.
    """
    path = typed.rstrip("/") or "/"
    if path == "/" or path.startswith("//") or posixpath.normpath(path) != path:
        raise RequestError(
            f"DATASET={printable(typed)}: a folder of the nodes is named by its path, without "
            "., .. and //"
        )
    if not path.isprintable():
        raise RequestError(f"DATASET={printable(typed)}: has no name that can be printed")
    return path


def shown_source(source: str) -> str:
    """A path as it is, and an address without what may be a key."""
    if not source.startswith(SCHEMES):
        return source
    return urlsplit(source)._replace(query="", fragment="").geturl()


def _file(project: Project, inventory: Inventory) -> Path:
    return project.state(inventory.path) / "data.json"
