"""What this machine, the control node, must have itself."""

import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from yard.contact.causes import Trouble
from yard.core.project import Project
from yard.core.words import size

# Programs that yard and Ansible call, with Debian's package of each.
PROGRAMS = {
    "ssh": "openssh-client",
    "ssh-keyscan": "openssh-client",
    "rsync": "rsync",
    "git": "git",
}
# The name of the look at the inventory.
INVENTORY = "inventory"
# Below this much there is no room for an image and a few runs, in bytes.
LEAST_FREE = 2 * 10**9


@dataclass(frozen=True)
class Check:
    """One look at this machine: what it was for, what there is, and the trouble with it."""

    name: str
    found: str
    trouble: Trouble | None = None


def check_here(project: Project, inventory: Path) -> tuple[Check, ...]:
    """Look at Python, the programs, the virtual environment and the disk."""
    about = tomllib.loads((project.root / "pyproject.toml").read_text(encoding="utf-8"))
    return (
        _python(about["project"]),
        _environment(about["project"]),
        _programs(),
        *_disk([project.root, project.runs, project.state(inventory), Path(tempfile.gettempdir())]),
    )


def _python(project: Mapping[str, Any]) -> Check:
    least = str(project["requires-python"]).removeprefix(">=")
    running = sys.version_info[:3]
    found = ".".join(map(str, running))
    if running >= tuple(map(int, least.split("."))):
        return Check("Python", found)
    return Check("Python", found, Trouble("here_python_old", {"version": found, "least": least}))


def _environment(project: Mapping[str, Any]) -> Check:
    """The packages that are pinned, in these versions, beside the interpreter that runs."""
    name = "virtual environment"
    wrong = []
    for requirement in project["dependencies"]:
        package, pinned, wanted = str(requirement).partition("==")
        there = _version(package) if pinned else None
        if pinned and there != wanted:
            wrong.append(f"{package} is {there or 'missing'} and must be {wanted}")
    if sys.prefix == sys.base_prefix:
        wrong.insert(0, f"{sys.executable} belongs to the system")
    if not wrong:
        return Check(name, sys.prefix)
    return Check(name, sys.prefix, Trouble("here_no_environment", {"difference": "; ".join(wrong)}))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _programs() -> Check:
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if not missing:
        return Check("programs", ", ".join(PROGRAMS))
    packages = dict.fromkeys(PROGRAMS[program] for program in missing)
    values = {"program": ", ".join(missing), "package": " ".join(packages)}
    return Check("programs", "", Trouble("here_program_missing", values))


def _disk(places: list[Path]) -> Iterator[Check]:
    """A check for each file system that is written to."""
    seen = set()
    for place in places:
        folder = next(folder for folder in (place, *place.parents) if folder.is_dir())
        device = folder.stat().st_dev
        if device in seen:
            continue
        seen.add(device)
        free = shutil.disk_usage(folder).free
        name, found = f"disk of {folder}", f"{size(free)} free"
        trouble = None
        if free < LEAST_FREE:
            values = {"least": size(LEAST_FREE), "path": str(folder)}
            trouble = Trouble("here_disk_full", values, (found,))
        yield Check(name, found, trouble)
