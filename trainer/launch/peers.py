"""The containers on the other nodes."""

import socket
import time
from collections.abc import Callable, Mapping

from trainer.problems import Problem

# Seconds for all of them together, for one connection, and between two attempts.
PATIENCE = 30.0
CONNECTION_PATIENCE = 2.0
PAUSE = 0.1


def await_peers(peers: Mapping[str, str], interrupted: Callable[[], bool]) -> Problem | None:
    """Wait until every peer's sshd accepts connections: mpirun gives up at the first refusal.

    Args:
        peers: address and port by host.

    Returns:
        The problem with the first that does not answer; None if all do.
    """
    deadline = time.monotonic() + PATIENCE
    for host, peer in peers.items():
        address, _, port = peer.rpartition(":")
        while not interrupted():
            try:
                socket.create_connection((address, int(port)), timeout=CONNECTION_PATIENCE).close()
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    values = {"host": host, "address": peer, "message": str(error)}
                    return Problem("peer_unreachable", values)
                time.sleep(PAUSE)
    return None
