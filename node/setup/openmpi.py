"""What is installed of Open MPI, and the blocks that the role writes into its settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .files import is_roots
from .packages_records import LIST_COMMAND, Package, output_of, parse_packages, unsettled

# One job cannot mix versions of these.
COMPARED = ("openmpi-bin", "libucx0")
# From this version on the runtime is PRRTE, with settings of its own.
PRRTE_SINCE = 5


def upstream_versions(packages: Iterable[Package]) -> dict[str, str]:
    """Return the versions of what is installed, by package, without Debian's epoch and revision."""
    installed = {
        package.name: re.sub(r"-[^-]*$", "", re.sub(r"^[0-9]+:", "", package.version))
        for package in packages
        if package.status == "installed"
    }
    return {name: installed[name] for name in COMPARED if name in installed}


def runtime_of(versions: Mapping[str, str]) -> str | None:
    """Return which runtime starts the ranks, prrte or orte; None where there is no Open MPI."""
    version = versions.get("openmpi-bin")
    if version is None:
        return None
    return "prrte" if int(version.partition(".")[0]) >= PRRTE_SINCE else "orte"


def has_block(text: str, marker: str, block: str) -> bool:
    """Whether a text has this block between the markers, and no other one.

    Args:
        marker: as ansible.builtin.blockinfile takes it, with {mark} for BEGIN and END.
        block: its lines; without any there is to be no block.
    """
    lines = text.splitlines()
    begin, end = marker.format(mark="BEGIN"), marker.format(mark="END")
    if not block:
        return begin not in lines and end not in lines
    if lines.count(begin) != 1 or lines.count(end) != 1:
        return False
    return lines[lines.index(begin) + 1 : lines.index(end)] == block.splitlines()


class OpenMPI(NamedTuple):
    """What is to be there.

    Attributes:
        blocks: by runtime and path, the defaults that stand in a file between lines of `marker`.
    """

    packages: list[str]
    blocks: dict[str, dict[str, str]]
    marker: str


def look_at_openmpi(wanted: OpenMPI) -> dict[str, Any]:
    """Return what differs, and the `versions`, which are to be alike on all nodes."""
    try:
        missing = unsettled("openmpi", wanted.packages)
        versions = upstream_versions(parse_packages(output_of(LIST_COMMAND)))
    except RuntimeError as error:
        # The task that installs says it, and what mends it.
        return {"differs": True, "versions": [], "differences": [str(error)]}
    differences = [f"packages: {', '.join(missing)}"] if missing else []
    runtime = runtime_of(versions)
    if runtime is None:
        differences.append("there is no Open MPI")
    else:
        differences += [
            f"{path} has other defaults"
            for path, block in wanted.blocks[runtime].items()
            if not _has_defaults(Path(path), wanted.marker, block)
        ]
    return {
        "differs": bool(differences),
        "versions": [f"{name} {version}" for name, version in versions.items()],
        "differences": differences,
    }


def _has_defaults(path: Path, marker: str, block: str) -> bool:
    """Whether a file has this block; one without a block may be missing."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    if not has_block(text, marker, block):
        return False
    if not block and not path.exists():
        return True
    return is_roots(path, "0644") and is_roots(path.parent, "0755")
