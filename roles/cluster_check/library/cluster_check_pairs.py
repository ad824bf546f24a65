#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: ports, clocks, latency and bandwidth between this node and every other."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: cluster_check_pairs
short_description: Measures the network between the nodes, pair by pair
description:
  - Runs on all nodes at the same time. Every node connects to a port of every other, tells which
    address the connections seem to come from and how far the clocks are apart; then the pairs
    measure latency and bandwidth in a round-robin tournament, so that no node is in two tests at
    once.
  - Every step has a time limit. The whole ends after C(start_seconds) and, for each round,
    C(match_seconds), whatever the other nodes do.
author: Trainyard
options:
  name:
    description: This node, one of O(nodes).
    type: str
    required: true
  nodes:
    description: Names of all nodes, in one order everywhere.
    type: list
    elements: str
    required: true
  addresses:
    description: Address of each node, by name.
    type: dict
    required: true
  ports:
    description: TCP port that each node has free, by name.
    type: dict
    required: true
  seconds:
    description: Duration of one bandwidth measurement; a pair has one in each direction.
    type: float
    required: true
  connect_seconds:
    description: Time limit of a connection.
    type: float
    required: true
  start_seconds:
    description: Time within which all nodes begin.
    type: float
    required: true
  match_seconds:
    description: Time limit of a pair.
    type: float
    required: true
"""

EXAMPLES = r"""
- name: Measure
  cluster_check_pairs:
    name: node1
    nodes: [node1, node2]
    addresses: {node1: 10.0.0.11, node2: 10.0.0.12}
    ports: {node1: 40001, node2: 40002}
    seconds: 1
    connect_seconds: 3
    start_seconds: 15
    match_seconds: 10
"""

RETURN = r"""
greetings:
  description: By peer, why its port was not reached, the address it saw, its lead in time.
  returned: always
  type: dict
matches:
  description: By peer, the round, and for the side that came, latency and bandwidth.
  returned: always
  type: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.cluster_check_iperf import bits_per_second, server
from ansible.module_utils.cluster_check_tournament import (
    Limits,
    Line,
    Node,
    Tournament,
    round_trip,
    trouble_of,
)

# Whether the bytes flow backwards, from the server to the client.
DIRECTIONS = (False, True)


class Meter:
    """Latency, then bandwidth in both directions."""

    def __init__(self, seconds: float, limit: float) -> None:
        self.seconds = seconds
        # Two directions, each with time for its end.
        self.limit = limit / 2

    def __call__(self, line: Line, me: Node, peer: Node, at_home: bool) -> dict[str, Any]:
        """Measure one match; see `tournament.Measure`."""
        latency = round_trip(line, at_home)
        if at_home:
            for _ in DIRECTIONS:
                # A server of its own for each: one still held by a test that was cut off turns the
                # next away, and over a slow link even that answer gets lost.
                with server(me.address) as port:
                    line.say(port=port)
                    line.hear()
            return {}
        try:
            there, back = (self._bits_per_second(line, me, peer, way) for way in DIRECTIONS)
        except (OSError, ValueError) as error:
            return {"latency_seconds": latency, "trouble": trouble_of(error)}
        return {"latency_seconds": latency, "bits_per_second": [there, back]}

    def _bits_per_second(self, line: Line, me: Node, peer: Node, backwards: bool) -> float:
        port = line.hear()["port"]
        rate: float = bits_per_second(
            me.address, peer.address, port, self.seconds, self.limit, backwards
        )
        line.say(done=True)
        return rate


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "nodes": {"type": "list", "elements": "str", "required": True},
            "addresses": {"type": "dict", "required": True},
            "ports": {"type": "dict", "required": True},
            "seconds": {"type": "float", "required": True},
            "connect_seconds": {"type": "float", "required": True},
            "start_seconds": {"type": "float", "required": True},
            "match_seconds": {"type": "float", "required": True},
        },
        supports_check_mode=True,
    )
    params = module.params
    nodes = [
        Node(name, params["addresses"][name], int(params["ports"][name]))
        for name in params["nodes"]
    ]
    me = next(node for node in nodes if node.name == params["name"])
    limits = Limits(params["connect_seconds"], params["start_seconds"], params["match_seconds"])
    meter = Meter(params["seconds"], params["match_seconds"])
    try:
        result = Tournament(me, nodes, limits, meter).run()
    except OSError as error:
        module.fail_json(msg=f"cannot listen on {me.address} port {me.port}: {error.strerror}")
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
