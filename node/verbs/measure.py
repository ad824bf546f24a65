"""The verb `measure`: ports, clocks, latency and bandwidth between this node and every other.

It runs on all nodes at the same time, and ends after `start_seconds` and, for each round,
`match_seconds`, whatever the other nodes do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..check.bandwidth import Meter
from ..check.tournament import Limits, Node, Tournament
from ..failure import VerbError


class PairTests(NamedTuple):
    """Who measures, and how long.

    Attributes:
        name: of this node, one of `nodes`.
        nodes: all of them, in one order everywhere.
        addresses, ports: of each node, by name; the TCP port is one that it has free.
        seconds: of one bandwidth measurement; a pair has one in each direction.
        connect_seconds, start_seconds, match_seconds: time limits, see `Limits`.
    """

    name: str
    nodes: list[str]
    addresses: dict[str, str]
    ports: dict[str, int]
    seconds: float
    connect_seconds: float
    start_seconds: float
    match_seconds: float


def measure(tests: PairTests) -> dict[str, Any]:
    """Measure, and tell by peer what came of it.

    Returns:
        `greetings`: why its port was not reached, the address that it saw, its lead in time.
        `matches`: the round, and for the side that came, latency and bandwidth.

    Raises:
        VerbError: `failed`: this node cannot listen.
    """
    nodes = [Node(name, tests.addresses[name], int(tests.ports[name])) for name in tests.nodes]
    me = next(node for node in nodes if node.name == tests.name)
    limits = Limits(tests.connect_seconds, tests.start_seconds, tests.match_seconds)
    meter = Meter(tests.seconds, tests.match_seconds)
    try:
        return Tournament(me, nodes, limits, meter).run()
    except OSError as error:
        message = f"cannot listen on {me.address} port {me.port}: {error.strerror}"
        raise VerbError("failed", message=message) from error
