# Copyright Trainyard. Apache-2.0
"""The units that systemd runs an engine as."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

SERVICE, SOCKET, CONTAINERD = "docker.service", "docker.socket", "containerd.service"
# What the first process has open
SYSTEMD_FILES = Path("/proc/1/fd")
PROPERTIES = "Id,ActiveState,UnitFileState,MainPID,Listen,ExecStart"

# A property of a unit that is named twice (Listen) has a line for each.
Units = Mapping[str, Mapping[str, list[str]]]


def read_units() -> dict[str, dict[str, list[str]]]:
    """Return the properties of the engine's units, by unit; none where there is no systemd."""
    command = ["systemctl", "show", f"--property={PROPERTIES}", SERVICE, SOCKET, CONTAINERD]
    try:
        shown = subprocess.run(command, capture_output=True, text=True).stdout
    except FileNotFoundError:
        return {}
    return parse_units(shown)


def parse_units(shown: str) -> dict[str, dict[str, list[str]]]:
    """Return the properties of each unit that `systemctl show` printed.

    A unit that systemd does not know has no state of its file.
    """
    units: dict[str, dict[str, list[str]]] = {}
    for block in shown.strip().split("\n\n"):
        properties: dict[str, list[str]] = {}
        for line in block.splitlines():
            name, _, value = line.partition("=")
            properties.setdefault(name, []).append(value)
        if "Id" in properties:
            units[properties["Id"][0]] = properties
    return units


def runs_and_starts(units: Units) -> bool:
    """Whether the engine runs, and starts with the machine."""
    service = units.get(SERVICE, {})
    return service.get("ActiveState") == ["active"] and service.get("UnitFileState") == ["enabled"]


def is_stopped(units: Units) -> bool:
    """Whether the engine does not run, and no use of its socket starts it."""
    states = [units.get(unit, {}).get("ActiveState") for unit in (SERVICE, SOCKET)]
    return all(state in (["inactive"], ["failed"]) for state in states)


def network_lines(units: Units, options_file: Path) -> list[str]:
    """Return what has the engine listen on the network.

    Args:
        units: as `read_units` returns them.
        options_file: where an engine without systemd has its options.
    """
    lines = [
        f"{name}={value}"
        for unit in (SERVICE, SOCKET)
        for name in ("ExecStart", "Listen")
        for value in units.get(unit, {}).get(name, [])
        if "tcp://" in value or (name == "Listen" and value and not value.startswith("/"))
    ]
    with suppress(FileNotFoundError):
        text = options_file.read_text(encoding="utf-8", errors="replace")
        lines += [
            line
            for line in text.splitlines()
            if re.match(r"[^#]*DOCKER_OPTS=", line) and "tcp://" in line
        ]
    return lines


def replaced_units(units: Units) -> list[str]:
    """Return the units that run on although their package was replaced.

    When a package goes, systemd reads its units anew, finds no docker.socket and closes the socket.
    From then on the unit of the new package is called active, but no engine can start from it; to
    start it does nothing.
    """
    replaced = []
    if _runs_deleted(units, SERVICE) or _is_closed(units):
        replaced += [SERVICE, SOCKET]
    if _runs_deleted(units, CONTAINERD):
        replaced.append(CONTAINERD)
    return replaced


def _runs_deleted(units: Units, unit: str) -> bool:
    process = units.get(unit, {}).get("MainPID", ["0"])[0]
    with suppress(OSError):  # nothing runs
        return os.readlink(f"/proc/{process}/exe").endswith(" (deleted)")
    return False


def _is_closed(units: Units) -> bool:
    """Whether docker.socket is called active and systemd does not hold it."""
    unit = units.get(SOCKET, {})
    if unit.get("ActiveState") != ["active"]:
        return False
    path = unit.get("Listen", [""])[0].partition(" (")[0]
    sockets = {
        f"socket:[{fields[6]}]"
        for fields in map(str.split, Path("/proc/net/unix").read_text().splitlines())
        if len(fields) > 7 and fields[7] == path
    }
    held = set()
    try:
        for descriptor in SYSTEMD_FILES.iterdir():
            with suppress(FileNotFoundError):  # closed in between
                held.add(os.readlink(descriptor))
    except PermissionError:
        return False  # a machine that lets nobody look; nothing is stopped on a guess
    return not sockets & held
