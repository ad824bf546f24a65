"""The files by which mpirun starts ranks in the containers of a run: its hosts, sshd and ssh."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .directory import CONFIG, HOSTFILE

# What `from=` of authorized_keys takes: sshd would have to ask a name server for a name.
ADDRESS = re.compile(r"(?=.*[.:])[0-9A-Fa-f.:]+")

# For both ends: one type of key; of the rest what a quantum computer does not break, and of which
# ssh-audit does not warn.
STRONG = """\
HostKeyAlgorithms ssh-ed25519
PubkeyAcceptedAlgorithms ssh-ed25519
KexAlgorithms -ecdh-*,diffie-hellman-*,curve25519-*
Ciphers aes128-gcm@openssh.com,aes256-gcm@openssh.com
"""

# mpirun runs commands, and nothing else: no forwarding of any kind, no terminal, no files of the
# user's. One connection a node at most comes; the rest of MaxStartups is for the launcher's
# retries.
SSHD = """\
# sshd of one run: as an ordinary user, keys only, on the training network only.
Port {port}
ListenAddress {address}
HostKey {config}/ssh/ssh_host_ed25519_key
AuthorizedKeysFile {config}/ssh/authorized_keys
AllowUsers {user}
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
DisableForwarding yes
PermitTTY no
PermitUserRC no
PermitUserEnvironment no
PrintMotd no
{strong}MACs hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com
PidFile none
MaxStartups 100
"""

HOST = """\
Host {host}
    HostName {address}
    Port {port}
"""
ALL_HOSTS = """\
Host *
    User {user}
    IdentityFile ~/.ssh/id_ed25519
    IdentitiesOnly yes
    StrictHostKeyChecking yes
    UpdateHostKeys no
    PreferredAuthentications publickey
    ClearAllForwardings yes
{strong}    ConnectTimeout 10
    ServerAliveInterval 10
    ServerAliveCountMax 3
    LogLevel ERROR
"""


def hostfile(launch: Mapping[str, Any]) -> str:
    """Return mpirun's list of hosts, each with its number of ranks."""
    pairs = zip(launch["nodes"], launch["slots"])
    return "".join(f"{host} slots={slots}\n" for host, slots in pairs)


def sshd_config(user: str, address: str, port: int) -> str:
    """Return the settings of the sshd in a container."""
    return SSHD.format(config=CONFIG, user=user, address=address, port=port, strong=STRONG)


def ssh_config(launch: Mapping[str, Any], user: str) -> str:
    """Return the settings of the ssh with which the launcher logs in on all nodes as `user`."""
    hosts = [
        HOST.format(host=host, address=launch["addresses"][host], port=launch["ports"][host])
        for host in launch["nodes"]
    ]
    strong = "".join(f"    {line}\n" for line in STRONG.splitlines())
    return "".join(hosts) + ALL_HOSTS.format(user=user, strong=strong)


def known_hosts(launch: Mapping[str, Any]) -> str:
    """Return the host key of every node, at its address and port."""
    return "".join(
        f"[{launch['addresses'][host]}]:{launch['ports'][host]} {launch['host_keys'][host]}\n"
        for host in launch["nodes"]
    )


def authorized_keys(launch: Mapping[str, Any]) -> str:
    """Return the launcher's key, which opens a container from the launcher's address alone.

    It opens it from everywhere where the launcher has no address but a name.
    """
    address = launch["addresses"][launch["nodes"][0]]
    limits = f'restrict,from="{address}"' if ADDRESS.fullmatch(address) else "restrict"
    return f"{limits} {launch['client_key']}\n"


def login_files(launch: Mapping[str, Any], user: str, address: str, port: int) -> dict[str, str]:
    """Return the files for the logins of one node, path below `config` to content.

    Args:
        launch: fields of `mpirun.Launch`, by name.
        address: that the sshd of this node's container listens on.
    """
    return {
        HOSTFILE: hostfile(launch),
        "ssh/sshd_config": sshd_config(user, address, port),
        "ssh/authorized_keys": authorized_keys(launch),
        "ssh/config": ssh_config(launch, user),
        "ssh/known_hosts": known_hosts(launch),
    }
