"""Ports of this machine: who reaches them, and which are free."""

import socket
from pathlib import Path

# Addresses as the kernel lists them: 127.0.0.1 and ::1
LOOPBACK = {"0100007F", "00000000000000000000000001000000"}
LISTENING = "0A"


def exposed(table: str, port: int) -> bool:
    """Whether others than this machine reach a port.

    Args:
        table: content of /proc/net/tcp or /proc/net/tcp6.
        port: the port.
    """
    for line in table.splitlines()[1:]:
        _, local, _, state = line.split()[:4]
        address, _, number = local.partition(":")
        if state == LISTENING and int(number, 16) == port and address not in LOOPBACK:
            return True
    return False


def exposed_here(port: int) -> bool:
    """Whether others than this machine reach a port, as the kernel has it now."""
    tables = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
    return any(exposed(table.read_text(), port) for table in tables if table.exists())


def free_port() -> int:
    """Return a port of the loopback that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


def listening(port: int) -> bool:
    """Whether somebody listens on a port of the loopback."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
