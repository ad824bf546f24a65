"""The block of /etc/hosts with the names of the nodes; all else stays, or comes back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .files import is_roots

# A line that the block contradicts stays as a comment, followed by what is left of it: so it can
# come back.
FORMER = "#hosts_file was: "
LEFT = " #hosts_file left this"


def other_lines(text: str, begin: str, end: str, names: Iterable[str]) -> list[str]:
    """Return the lines outside the block, with the names of the block taken out of them.

    Args:
        names: of the block that is to be written; all lines come back where there are none.
    """
    # A block that lost its last line ends with the next one's: what is between is somebody else's.
    block = re.compile(
        f"{re.escape(begin)}(?:(?!{re.escape(begin)}).)*?{re.escape(end)}\n?", re.DOTALL
    )
    ours = {name.lower() for name in names}
    lines: list[str] = []
    rest = block.sub("", text).rstrip("\n")
    # Not splitlines, for which a line ends at a form feed, too.
    for present in rest.split("\n") if rest else []:
        if present in (begin, end) or present.endswith(LEFT):
            continue
        line = present.removeprefix(FORMER)
        address, *line_names = line.split("#")[0].split() or [""]
        others = [name for name in line_names if name.lower() not in ours]
        if others == line_names:
            lines.append(line)
            continue
        lines.append(FORMER + line)
        if others:
            lines.append(" ".join((address, *others)) + LEFT)
    return lines


class HostsFile(NamedTuple):
    """What is to stand there; `names` stand in it, and nowhere else."""

    begin: str
    end: str
    lines: list[str]
    names: list[str]
    path: str = "/etc/hosts"


def content(before: bytes, wanted: HostsFile) -> bytes:
    """Return what the file is to hold, of what it holds."""
    # A comment may hold bytes that are not UTF-8. They go back as they came.
    text = before.decode(encoding="utf-8", errors="surrogateescape")
    lines = other_lines(text, wanted.begin, wanted.end, wanted.names)
    if wanted.lines:
        lines += [wanted.begin, *wanted.lines, wanted.end]
    after = "".join(f"{line}\n" for line in lines)
    return after.encode(encoding="utf-8", errors="surrogateescape")


def look_at_hosts_file(wanted: HostsFile) -> dict[str, Any]:
    """Tell whether the file is as it is to be."""
    path = Path(wanted.path)
    before = path.read_bytes()
    return {"differs": content(before, wanted) != before or not is_roots(path, "0644")}
