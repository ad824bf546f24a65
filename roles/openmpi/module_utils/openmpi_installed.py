# Copyright Trainyard. Apache-2.0
"""What is installed of Open MPI, and the blocks that the role writes into its settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ansible.module_utils.packages_records import Package

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
        text: what is in the file.
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
