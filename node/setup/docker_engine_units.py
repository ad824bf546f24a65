"""The units that systemd runs an engine as."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SERVICE, SOCKET, CONTAINERD = "docker.service", "docker.socket", "containerd.service"
# What the first process has open
SYSTEMD_FILES = Path("/proc/1/fd")
PROPERTIES = (
    "Id,ActiveState,UnitFileState,MainPID,Listen,ExecStart,"
    "Environment,EnvironmentFiles,FragmentPath,DropInPaths"
)
# Flags of the engine that have another name in its settings. `runtimes` may be in both places.
KEYS = {
    "D": "debug",
    "H": "hosts",
    "config-file": "--config-file",
    "dns-opt": "dns-opts",
    "host": "hosts",
    "insecure-registry": "insecure-registries",
    "l": "log-level",
    "label": "labels",
    "log-opt": "log-opts",
    "registry-mirror": "registry-mirrors",
    "s": "storage-driver",
    "storage-opt": "storage-opts",
}

# A property of a unit that is named twice (Listen) has a line for each.
Units = Mapping[str, Mapping[str, list[str]]]


@dataclass(frozen=True)
class Flag:
    """What the engine's unit says of one setting.

    Attributes:
        words: the arguments that say it, one that is repeated each time.
        file: which file has it.
    """

    words: list[str]
    file: str

    def __str__(self) -> str:
        return f"{' '.join(self.words)} in {self.file}"

    @property
    def value(self) -> str:
        """What it says, where it was said last; nothing for a flag that is there or not."""
        word = self.words[-1]
        return word.partition("=")[2] if word.startswith("-") else word

    @property
    def on(self) -> bool:
        """Whether it switches something on, of a flag that is yes or no."""
        return self.value.lower() not in ("false", "f", "0")


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


def masked_units(units: Units) -> list[str]:
    """Return the units that somebody has forbidden to start."""
    return [name for name, unit in units.items() if unit.get("UnitFileState") == ["masked"]]


def is_stopped(units: Units) -> bool:
    """Whether the engine does not run, and no use of its socket starts it."""
    states = [units.get(unit, {}).get("ActiveState") for unit in (SERVICE, SOCKET)]
    return all(state in (["inactive"], ["failed"]) for state in states)


def unit_flags(units: Units) -> dict[str, Flag]:
    """Return the flags that the engine is started with, by the name of the setting.

    systemd tells arguments without their quotes: what follows a value belongs to it.
    """
    unit = units.get(SERVICE, {})
    started = re.search(
        r"argv\[\]=\S*/dockerd (.*?) ; ignore_errors=", unit.get("ExecStart", [""])[-1]
    )
    words: dict[str, list[str]] = {}
    key, takes = "", False
    for word in _expanded(started.group(1).split(), _environment(unit)) if started else ():
        if word.startswith("-"):
            name, equals, _ = word.lstrip("-").partition("=")
            key, takes = KEYS.get(name, name), not equals
            words.setdefault(key, []).append(word)
        elif takes:
            words[key].append(word)
            takes = False
        elif key:
            words[key][-1] += f" {word}"
    return {key: Flag(found, _file_with(unit, found[0])) for key, found in words.items()}


def _environment_files(unit: Mapping[str, list[str]]) -> list[Path]:
    return [Path(line.rpartition(" (")[0]) for line in unit.get("EnvironmentFiles", []) if line]


def _environment(unit: Mapping[str, list[str]]) -> dict[str, str]:
    """Return the variables that the unit gives the engine; its files win."""
    lines = [*unit.get("Environment", [])]
    for path in _environment_files(unit):
        with suppress(OSError):
            lines += path.read_text(encoding="utf-8", errors="replace").splitlines()
    words: list[str] = []
    for line in lines:
        with suppress(ValueError):  # a quote that is not closed
            words += shlex.split(line, comments=True)
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def _expanded(words: list[str], variables: Mapping[str, str]) -> Iterator[str]:
    """Give arguments as systemd does: `$NAME` alone is split, `${NAME}` is not."""
    for word in words:
        if re.fullmatch(r"\$\w+", word):
            yield from variables.get(word[1:], "").split()
        else:
            yield re.sub(r"\$\{(\w+)\}", lambda found: variables.get(found[1], ""), word)


def _file_with(unit: Mapping[str, list[str]], word: str) -> str:
    """Return which of the unit's files has an argument: the last that can say it."""
    drop_ins = " ".join(unit.get("DropInPaths", [])).split()
    fragment = unit.get("FragmentPath", [""])[0]
    for path in (*_environment_files(unit), *map(Path, reversed(drop_ins)), Path(fragment)):
        with suppress(OSError):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                if word.partition("=")[0] in line and not line.lstrip().startswith(("#", ";")):
                    return str(path)
    return SERVICE


def start_error(log: str) -> str:
    """Return why an engine did not start or did not take its settings, from what it wrote last."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for words in (r"failed to start daemon|unable to configure|level=fatal", r"level=error"):
        for line in reversed(lines):
            if re.search(words, line):
                message = re.search(r'msg="((?:[^"\\]|\\.)*)"', line)
                return message[1].replace('\\"', '"') if message else line
    return lines[-1] if lines else "it wrote nothing"


def network_lines(units: Units, options_file: Path) -> list[str]:
    """Return what has the engine listen on the network.

    Args:
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
