# Copyright Trainyard. Apache-2.0
"""Names and addresses of hosts, and the lines of hosts(5) that others wrote."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")

# A line that the block contradicts stays as a comment, followed by what is left of it: so it can
# come back.
FORMER = "#hosts_file was: "
LEFT = " #hosts_file left this"

TEXTS = {
    "group_missing": "there is no group {group}, which hosts_file_groups names",
    "address_invalid": (
        '{host}: "{address}" is not an IP address; set cluster_address of this host'
    ),
    "address_shared": "address {address} belongs to {hosts}",
    "name_shared": "name {name} belongs to {hosts}",
    "name_invalid": '{host}: "{name}" cannot be the name of a host',
}


class Problem(NamedTuple):
    """A reason to change nothing; `values` fill the gaps in the text of the code."""

    code: str
    values: dict[str, str]

    @property
    def text(self) -> str:
        """The sentence for people."""
        return TEXTS[self.code].format(**self.values) + "."

    def as_result(self) -> dict[str, Any]:
        """Return the problem in the form of a task's result."""
        return {"code": self.code, "values": self.values, "text": self.text}


def problem(code: str, **values: str) -> Problem:
    """Make a problem of one of the codes of TEXTS."""
    return Problem(code, values)


class Entry(NamedTuple):
    """A line of hosts(5) for a host of the inventory; the first name is the inventory's."""

    host: str
    address: str
    names: tuple[str, ...]

    @property
    def line(self) -> str:
        """The line as the file has it."""
        return " ".join((self.address, *self.names))


def host_entries(host: str, addresses: Iterable[str], aliases: Iterable[str]) -> Iterator[Entry]:
    """Yield an entry for each address of a host.

    Args:
        host: its name in the inventory.
        addresses: of one form or several of version 6, which become one; empty ones are left out.
        aliases: further names.
    """
    names = tuple(dict.fromkeys((host, *aliases)))
    for address in addresses:
        if address:
            try:
                yield Entry(host, str(ipaddress.ip_address(address)), names)
            except ValueError:
                yield Entry(host, address, names)  # entry_problems refuses it


def entry_problems(entries: list[Entry]) -> Iterator[Problem]:
    """Yield what contradicts itself; upper and lower case are the same in names."""
    hosts_of_address: dict[str, list[str]] = {}
    hosts_of_name: dict[str, dict[str, None]] = {}
    spelling: dict[str, str] = {}
    for entry in entries:
        if not _is_address(entry.address):
            yield problem("address_invalid", host=entry.host, address=entry.address)
        hosts_of_address.setdefault(entry.address, []).append(entry.host)
        for name in entry.names:
            spelling.setdefault(name.lower(), name)
            hosts_of_name.setdefault(name.lower(), {})[entry.host] = None
    for address, hosts in hosts_of_address.items():
        if len(hosts) > 1:
            yield problem("address_shared", address=address, hosts=" and ".join(hosts))
    for key, owners in hosts_of_name.items():
        name = spelling[key]
        if len(owners) > 1:
            yield problem("name_shared", name=name, hosts=" and ".join(owners))
        if not HOST_NAME.fullmatch(name) or key == "localhost":
            yield problem("name_invalid", host=next(iter(owners)), name=name)


def other_lines(text: str, begin: str, end: str, names: Iterable[str]) -> list[str]:
    """Return the lines outside the block, with the names of the block taken out of them.

    Args:
        text: of the whole file.
        begin: first line of the block.
        end: last line of the block.
        names: of the block that is to be written; all lines come back where there are none.
    """
    block = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}\n?", re.DOTALL)
    ours = {name.lower() for name in names}
    lines: list[str] = []
    for present in block.sub("", text).rstrip().splitlines():
        if present.endswith(LEFT):
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


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
