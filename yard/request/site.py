"""A site file: what machines are rented, where and for how long. One of them is in `sites/`."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from yard.core.errors import RequestError
from yard.core.project import OWN_FOLDERS, Project

FOLDER = "sites"
SUFFIXES = (".yml", ".yaml")
# It names machines and an inventory. A host's name has 63 characters, of which a number takes some.
NAME = re.compile(r"[a-z][a-z0-9-]{0,39}(?<!-)")
# Inventories that the checkout has, and what can be the name of none.
PRESENT = frozenset({"example", "local"})
TAKEN = PRESENT | OWN_FOLDERS
REGION = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d")
TYPE = re.compile(r"[a-z0-9-]+\.[a-z0-9-]+")
OWNER = re.compile(r"\d{12}|amazon|aws-marketplace|self")
USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
SUBNET = re.compile(r"subnet-[0-9a-f]+")
ON_DEMAND, SPOT = MARKETS = ("on-demand", "spot")
DISKS = ("gp2", "gp3", "io1", "io2", "st1", "sc1", "standard")
DISK_KEYS = ("gigabytes", "type", "iops", "throughput")
# The address of this machine as others see it.
HERE = "here"
# Tags that say what a machine is; a file cannot give them other values.
OWN_TAGS = ("Name", "aws:", "trainyard:")
# A month: longer is a mistake, or should be bought otherwise.
MOST_HOURS = 31 * 24.0
ROLE = "ec2_machines"


@dataclass(frozen=True, kw_only=True)
class Site:
    """What the file says. What it leaves out, role ec2_machines knows.

    Attributes:
        hours: from renting to the deadline.
        price_per_hour: of one machine, US dollars; 0 asks AWS.
        image: `owner` and `name`, a pattern.
    """

    path: Path
    name: str
    region: str
    instance_type: str
    hours: float
    market: str | None = None
    price_per_hour: float | None = None
    image: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    ssh_key: str | None = None
    allowed_sources: list[str] | None = None
    subnet: str | None = None
    placement_group: bool | None = None
    volumes: list[dict[str, Any]] | None = None
    tags: dict[str, str] | None = None

    def inventory(self, project: Project) -> Path:
        """The folder of its inventory."""
        return project.root / "inventory" / self.name

    def extravars(self) -> dict[str, Any]:
        """The role's variables; what was not said is left to its defaults."""
        said = {key: value for key, value in asdict(self).items() if value is not None}
        del said["path"], said["name"], said["image"]
        said |= {f"image_{key}": value for key, value in self.image.items()}
        return {f"{ROLE}_{key}": value for key, value in said.items()} | self.scope()

    def scope(self) -> dict[str, Any]:
        """The variables that say whose machines are meant."""
        return {f"{ROLE}_site": self.name, f"{ROLE}_region": self.region}


def read_site(project: Project, path: Path, *, renting: bool = False) -> Site:
    """Read a site file.

    Args:
        renting: the public key is to be there, which EC2 gets. Machines are found and given back
            without it, perhaps from another computer than the one that rented them.

    Raises:
        RequestError: with every mistake in it.
    """
    shown = project.shown(path)
    if not path.is_file():
        raise RequestError(
            f"SITE={shown}: there is no such file; copy {FOLDER}/example.yml and edit the copy"
        )
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (ValueError, yaml.YAMLError) as error:
        raise RequestError(f"{shown}: is no YAML: {error}") from error
    known = [entry.name for entry in fields(Site) if entry.name != "path"]
    if not isinstance(document, dict):
        raise RequestError(f"{shown}: must have keys, of {', '.join(known)}")
    document.setdefault("name", path.stem)
    problems = [
        f"{shown}: {key}: unknown; there are {', '.join(known)}"
        for key in document
        if key not in known
    ]
    values: dict[str, Any] = {}
    for key in known:
        if key in document:
            try:
                values[key] = _READ[key](document[key])
                if key == "ssh_key" and renting:
                    _check_public_half(values[key])
            except ValueError as error:
                problems.append(f"{shown}: {key}: {error}")
        elif key in ("region", "instance_type", "hours"):
            problems.append(f"{shown}: {key}: is missing")
    if problems:
        raise RequestError(*problems)
    return Site(path=path, **values)


def list_sites(project: Project) -> tuple[list[Site], list[str]]:
    """Read the site files of the checkout, but for the example.

    Returns:
        The sites, and what is wrong with files that are none.
    """
    sites: list[Site] = []
    problems: list[str] = []
    for path in sorted((project.root / FOLDER).glob("*")):
        if path.suffix not in SUFFIXES or path.stem in PRESENT:
            continue
        try:
            sites.append(read_site(project, path))
        except RequestError as error:
            problems += error.problems
    return sites, problems


def _matching(pattern: re.Pattern[str], form: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ValueError(f"must be {form}, not {value!r}")
        return value

    return read


def _name(value: Any) -> str:
    form = "small letters, digits and hyphens, at most 40, a letter first"
    name = _matching(NAME, form)(value)
    if name in PRESENT:
        raise ValueError(f"must not be {' or '.join(sorted(PRESENT))}, which are other inventories")
    if name in TAKEN:
        raise ValueError(f"must not be {name}: .trainyard/{name} is Trainyard's own")
    return name


def _choice(*choices: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"must be {', '.join(choices[:-1])} or {choices[-1]}, not {value!r}")
        return str(value)

    return read


def _number(least: float, most: float, unit: str) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        if type(value) not in (int, float) or not least <= value <= most:
            raise ValueError(f"must be {unit}, from {least:g} to {most:g}, not {value!r}")
        return float(value)

    return read


def read_hours(value: Any) -> float:
    """Hours from renting to the deadline.

    Raises:
        ValueError: none, or too many.
    """
    return _number(0.1, MOST_HOURS, "hours")(value)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {value!r}")
    return value


def _image(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not value or set(value) - {"owner", "name"}:
        raise ValueError("must have owner and name, a pattern like debian-13-*")
    image = {}
    if "owner" in value:
        form = "12 digits in quotation marks, or amazon, aws-marketplace or self"
        image["owner"] = _inside("owner", _matching(OWNER, form), value["owner"])
    if "name" in value:
        read = _matching(re.compile(r"\S.*"), "a pattern like debian-13-*")
        image["name"] = _inside("name", read, value["name"])
    return image


def _ssh_key(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be the path of a private key of this machine")
    return str(Path(value).expanduser().absolute())


def _check_public_half(key: str) -> None:
    if not Path(f"{key}.pub").is_file():
        raise ValueError(f"there is no {key}.pub: ssh-keygen -t ed25519 -f {key} makes both")


def _sources(value: Any) -> list[str]:
    given = value if isinstance(value, list) else [value]
    if not given:
        raise ValueError(f"must have a network as CIDR, or {HERE}: nobody could reach the machines")
    sources = []
    for source in given:
        if source == HERE:
            sources.append(HERE)
            continue
        try:
            network = ipaddress.ip_network(source if isinstance(source, str) else "")
        except ValueError as error:
            raise ValueError(
                f"must be a network as CIDR like 192.0.2.0/24, or {HERE}, not {source!r} ({error})"
            ) from error
        if network.prefixlen == 0:
            raise ValueError(f"must not be {source}, which is everybody; {HERE} is this machine")
        sources.append(str(network))
    return sources


def _volumes(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not value or len(value) > 12:
        raise ValueError("must be a list of 1 to 12 disks like {gigabytes: 200, type: gp3}")
    return [_inside(f"disk {number}", _disk, entry) for number, entry in enumerate(value, 1)]


def _disk(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or "gigabytes" not in value or set(value) - set(DISK_KEYS):
        raise ValueError(f"must have gigabytes, and may have {', '.join(DISK_KEYS[1:])}")
    disk: dict[str, Any] = {}
    for key in DISK_KEYS:
        if key == "type" and key in value:
            disk[key] = _inside(key, _choice(*DISKS), value[key])
        elif key in value:
            disk[key] = int(_inside(key, _number(1, 256_000, "a number"), value[key]))
    return disk


def _tags(value: Any) -> dict[str, str]:
    plain = isinstance(value, dict) and all(
        isinstance(key, str) and isinstance(entry, str) for key, entry in value.items()
    )
    if not plain:
        raise ValueError("must be names with texts, numbers in quotation marks")
    taken = [key for key in value if key.startswith(OWN_TAGS)]
    if taken:
        raise ValueError(f"{', '.join(taken)} is taken: Name, trainyard:… and aws:… have a meaning")
    return dict(value)


def _inside(place: str, read: Callable[[Any], Any], value: Any) -> Any:
    """Read a part; an error names it."""
    try:
        return read(value)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


_READ: Mapping[str, Callable[[Any], Any]] = {
    "name": _name,
    "region": _matching(REGION, "a region of AWS like eu-central-1"),
    "instance_type": _matching(TYPE, "a type of EC2 like g5.2xlarge"),
    "hours": read_hours,
    "market": _choice(*MARKETS),
    "price_per_hour": _number(0, 1000, "US dollars"),
    "image": _image,
    "user": _matching(USER, "the name of an account"),
    "ssh_key": _ssh_key,
    "allowed_sources": _sources,
    "subnet": _matching(SUBNET, "the id of a subnet like subnet-0a1b2c3d"),
    "placement_group": _truth,
    "volumes": _volumes,
    "tags": _tags,
}
