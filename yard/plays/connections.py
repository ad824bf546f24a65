"""How Ansible reaches the hosts of an inventory and becomes root there."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from yard.core.project import Project
from yard.plays.ask import ask

# What Ansible tells ssh where the inventory has no password: to try none.
WITHOUT_PASSWORD = (
    "KbdInteractiveAuthentication=no",
    "PreferredAuthentications=gssapi-with-mic,gssapi-keyex,hostbased,publickey",
    "PasswordAuthentication=no",
)
FALSE = ("false", "no", "off", "0", "n", "f")


@dataclass(frozen=True)
class Sudo:
    """How Ansible calls sudo; `password` is None where the inventory has none."""

    user: str
    executable: str
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Connection:
    """How Ansible would reach one host.

    Attributes:
        plugin: `ssh`, `local` or another of Ansible's connections; empty where there is a problem.
        address: what ssh is told to connect to.
        user: who logs in; None where the inventory does not say, so that ssh decides.
        key_file: the private key that the inventory names, if it does.
        arguments: everything else that ssh is told, in Ansible's order: the first of two that
            contradict each other holds.
        typed: those of them that the inventory has for this host: people would have to type them.
        password: for the login; None where the inventory has none.
        method: how to become another user: `sudo`, or another of Ansible's; None where not.
        python: the interpreter for modules, a path, or `auto` for the first that is found.
        problem: why its variables cannot be resolved; then nothing else counts.
    """

    host: str
    plugin: str = ""
    address: str = ""
    user: str | None = None
    key_file: str | None = None
    executable: str = "ssh"
    arguments: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()
    password: str | None = field(default=None, repr=False)
    method: str | None = None
    sudo: Sudo = Sudo("root", "sudo")
    python: str = ""
    problem: str | None = None


@dataclass(frozen=True)
class Connections:
    """All hosts of an inventory, in its order, and the oldest Python that Ansible works with."""

    hosts: tuple[Connection, ...]
    least_python: tuple[int, ...]


def read_connections(project: Project, inventory: Path) -> Connections:
    """Ask Ansible how it would reach the hosts; contacts none.

    Its plugins are asked for their options.

    Raises:
        RequestError: Ansible cannot read the inventory.
    """
    document = ask("connections", project, inventory)
    return Connections(
        hosts=tuple(map(parse_connection, document["hosts"])),
        least_python=tuple(document["least_python"]),
    )


def parse_connection(entry: Mapping[str, Any]) -> Connection:
    """Build a connection from what Ansible's plugins would be told."""
    if "problem" in entry:
        return Connection(entry["host"], problem=entry["problem"])
    ssh, sudo = entry["ssh"], entry["sudo"]
    key_file = _text(ssh["private_key_file"])
    if key_file is not None:
        key_file = os.path.expanduser(key_file)
    further = [*_split(ssh["ssh_common_args"]), *_split(ssh["ssh_extra_args"])]
    password = _text(ssh["password"])
    user = _text(ssh["remote_user"])
    arguments = _split(ssh["ssh_args"])
    if ssh["port"] is not None:
        arguments += ["-o", f"Port={ssh['port']}"]
    if key_file is not None:
        arguments += ["-o", f'IdentityFile="{key_file}"']
    if password is None:
        arguments += [part for option in WITHOUT_PASSWORD for part in ("-o", option)]
    if user is not None:
        arguments += ["-o", f'User="{user}"']
    becomes = str(entry["become"]).lower() not in FALSE
    return Connection(
        host=entry["host"],
        plugin=entry["plugin"],
        address=str(ssh["host"]),
        user=user,
        key_file=key_file,
        executable=str(ssh["ssh_executable"]),
        arguments=(*arguments, *further),
        typed=(*([] if key_file is None else ["-i", key_file]), *further),
        password=password,
        method=entry["method"] if becomes else None,
        sudo=Sudo(
            user=_text(sudo["become_user"]) or "root",
            executable=_text(sudo["become_exe"]) or "sudo",
            password=_text(sudo["become_pass"]),
        ),
        python=str(entry["python"]),
    )


def _text(value: Any) -> str | None:
    return None if value in (None, "") else str(value)


def _split(value: Any) -> list[str]:
    return shlex.split(str(value)) if value else []
