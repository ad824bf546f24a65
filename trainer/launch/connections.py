"""Whether a program of this container holds a TCP connection to another node of the run.

The containers of a run share their nodes' networks, whose table proc(5) shows as net/tcp; whose a
connection is, the descriptors of the processes say. Ranks that never hold one train alone, each in
a world of size 1.
"""

import contextlib
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping

from trainer.launch.processes import PROC, program_processes

# Fields of a line of net/tcp: the remote end, the state, and the inode of the socket.
REMOTE, STATE, INODE = 2, 3, 9
ESTABLISHED = "01"
# What an address of IPv4 looks like in the table of IPv6.
MAPPED = bytes(10) + b"\xff\xff"
# The way of MPI whose bytes go over TCP. RDMA shows in no table.
OVER_TCP = {"OMPI_MCA_pml": "ob1"}


class NodeLook:
    """Looks whether the programs of this container have held a connection to another node.

    Args:
        nodes: names of all nodes of the run.
        environment: of a rank.
    """

    def __init__(self, nodes: Iterable[str], environment: Mapping[str, str]) -> None:
        others = [node for node in nodes if node != os.uname().nodename]
        self._remotes = remote_ends(others) if OVER_TCP.items() <= environment.items() else None
        self._held = False

    def __call__(self) -> bool | None:
        """Tell whether one has been held so far; None where that cannot be seen.

        Once there was one, nothing is looked at any more. A look takes 10 to 20 ms of a processor:
        the kernel goes through all of its table.
        """
        if not self._remotes:
            return None
        self._held = self._held or holds_connection(self._remotes)
        return self._held


def remote_ends(nodes: Iterable[str]) -> frozenset[str] | None:
    """Return the addresses of nodes as net/tcp has them; None where one has none."""
    ends = set()
    for node in nodes:
        try:
            found = socket.getaddrinfo(node, None, type=socket.SOCK_STREAM)
        except OSError:
            return None
        for family, _, _, _, place in found:
            packed = socket.inet_pton(family, str(place[0]).partition("%")[0])
            ends.add(_words(packed))
            if family == socket.AF_INET:
                ends.add(_words(MAPPED + packed))
    return frozenset(ends)


def holds_connection(remotes: frozenset[str]) -> bool:
    """Tell whether a process of a program holds a connection to one of some addresses."""
    inodes = set(_inodes(remotes))
    return bool(inodes) and any(
        not inodes.isdisjoint(_sockets(process.pid)) for process in program_processes()
    )


def _inodes(remotes: frozenset[str]) -> Iterator[str]:
    """The inodes of all connections of this machine to some addresses."""
    for table in ("tcp", "tcp6"):
        with (
            contextlib.suppress(FileNotFoundError),
            (PROC / "self/net" / table).open(encoding="ascii") as lines,
        ):
            for line in lines:
                fields = line.split()
                if fields[STATE] == ESTABLISHED and fields[REMOTE].partition(":")[0] in remotes:
                    yield fields[INODE]


def _sockets(pid: int) -> Iterator[str]:
    """The inodes of the sockets that a process has open."""
    with contextlib.suppress(OSError), os.scandir(PROC / str(pid) / "fd") as descriptors:
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                target = os.readlink(descriptor.path)
                if target.startswith("socket:["):
                    yield target[len("socket:[") : -1]


def _words(packed: bytes) -> str:
    """An address as the kernel prints it: words of 32 bits in the machine's own order of bytes."""
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words)
