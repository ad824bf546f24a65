"""The way to a port of a host's loopback, by ssh as Ansible calls it."""

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO

from yard.contact.ssh import Settings, environment_of
from yard.plays.connections import Connection

LOOPBACK = "127.0.0.1"
# How long it may take until ssh listens here, in seconds: it has to log in first.
OPEN_SECONDS = 30.0
# Of ssh. A connection that Ansible keeps open would take the way over, and keep it when this ends.
# A host that has gone is noticed within the minute.
OPTIONS = (
    "ControlMaster=no",
    "ControlPath=none",
    "ControlPersist=no",
    "ExitOnForwardFailure=yes",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "ConnectTimeout=15",
    "RequestTTY=no",
    "PermitLocalCommand=no",
    "ForwardAgent=no",
    "ForwardX11=no",
)


def tunnel_command(target: Connection, local: int, remote: int) -> list[str]:
    """The command that opens the way; Ansible's own arguments for the host follow ours.

    Args:
        local, remote: the port here, and the one of the host's loopback.
    """
    options = [part for option in OPTIONS for part in ("-o", option)]
    options += ["-o", f"BatchMode={'yes' if target.password is None else 'no'}"]
    options += ["-o", "NumberOfPasswordPrompts=1"]
    way = ["-N", "-L", f"{LOOPBACK}:{local}:{LOOPBACK}:{remote}"]
    return [target.executable, *way, *options, *target.arguments, target.address]


@dataclass
class Tunnel:
    """A way that is open; `port` is one here, on the loopback."""

    port: int
    _process: "subprocess.Popen[bytes] | None" = None
    _said: IO[bytes] | None = field(default=None, repr=False)

    @property
    def is_open(self) -> bool:
        """Whether ssh still runs."""
        return self._process is None or self._process.poll() is None

    @property
    def words(self) -> str:
        if self._said is None:
            return ""
        self._said.seek(0)
        return self._said.read().decode(errors="replace").strip()


@contextmanager
def direct_way(port: int) -> Iterator[Tunnel]:
    """The way to a port of this machine itself."""
    yield Tunnel(port)


@contextmanager
def open_tunnel(
    target: Connection, settings: Settings, remote: int, stopped: Callable[[], bool]
) -> Iterator[Tunnel]:
    """Open a way to a port of a host's loopback; it ends with this.

    Args:
        remote: the port there.
        stopped: asked again and again; once true, the way is not waited for any more.

    Yields:
        The way, which is not open where ssh could not open it, or the user stopped that.
    """
    port = free_port()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            tunnel_command(target, port, remote),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env=environment_of(target, settings),
            # A session of its own: Ctrl-C reaches this program alone, and with ssh ends the one of
            # a bastion.
            start_new_session=True,
        )
        tunnel = Tunnel(port, process, said)
        try:
            deadline = time.monotonic() + OPEN_SECONDS
            while tunnel.is_open and not listens_for_us(port):
                if stopped() or time.monotonic() > deadline:
                    _end(process)
                    break
                time.sleep(0.1)
            yield tunnel
        finally:
            _end(process)


def free_port() -> int:
    """A port of the loopback that nothing listens on."""
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        port: int = listener.getsockname()[1]
    return port


def listens_for_us(port: int) -> bool:
    """Whether a program of this account listens on a port of the loopback (proc_net(5)).

    What listens may be another account's, which saw the port in ssh's arguments and was faster: it
    would be given the token.
    """
    ours = (f"0100007F:{port:04X}", "0A", str(os.geteuid()))
    with open("/proc/net/tcp", encoding="ascii") as file:
        return any((entry[1], entry[3], entry[7]) == ours for entry in map(str.split, file))


def _end(process: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(5.0)
            return
