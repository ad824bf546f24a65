# Copyright Trainyard. Apache-2.0
"""Ports of the ephemeral range."""

from __future__ import annotations

import socket


def free_port(address: str) -> int:
    """A TCP port that is free on an address at this moment; OSError where it is not this node's."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
