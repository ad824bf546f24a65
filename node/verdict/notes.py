# Copyright Trainyard. Apache-2.0
"""What is worth knowing of a cluster and is nobody's fault."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..check.rdma import ACTIVE, SOFTWARE
from .cluster import Cluster

# What a node may say of a port: it is shown on terminals.
SHOWN = re.compile(r"[ -~]{0,64}")
# By code; names in braces are filled in.
TEXTS = {
    "rdma_unused": (
        "RDMA is there ({ports}) and TRANSPORT={transport}, which runs use unasked, does not take "
        "it: TRANSPORT=ucx does, and nccl between GPUs; training_run_transport says it for all runs"
    ),
    "rdma_elsewhere": (
        "RDMA is there ({ports}), but not behind the training network, so UCX sends over {ucx}: "
        "cluster_network decides which interface that is"
    ),
}


class Transport(NamedTuple):
    """What runs use unasked.

    Attributes:
        name: as TRANSPORT= has it.
        rdma: whether its ranks get the node's devices for RDMA.
    """

    name: str
    rdma: bool


@dataclass(frozen=True)
class Note:
    """Something to know of some nodes.

    Attributes:
        code: a key of TEXTS.
        hosts: the nodes, in the order of the inventory.
        text: the sentence for people.
    """

    code: str
    hosts: tuple[str, ...]
    text: str


def notes(cluster: Cluster, transport: Transport) -> list[Note]:
    """All there is to know; hosts of which the same is to be said stand together."""
    said: dict[tuple[str, str], list[str]] = {}
    for host in cluster.up:
        for code, text in _of_rdma(cluster.answer(host, "node"), transport):
            said.setdefault((code, text), []).append(host)
    return [Note(code, tuple(hosts), text) for (code, text), hosts in said.items()]


def _of_rdma(answer: Mapping[str, Any], transport: Transport) -> list[tuple[str, str]]:
    ports = rdma_of(answer)
    active = [port for port in ports if port["state"] == ACTIVE]
    if not active:
        return []
    shown = ", ".join(f"{port['name']} {port['link']} {port['rate']}".strip() for port in active)
    behind = [port for port in active if port["interface"] == answer.get("interface", "")]
    if not behind:
        interface = answer.get("interface")
        is_named = isinstance(interface, str) and interface and SHOWN.fullmatch(interface)
        values = {"ports": shown, "ucx": interface if is_named else "TCP"}
        return [("rdma_elsewhere", TEXTS["rdma_elsewhere"].format(**values))]
    # Software is slower than TCP over the same interface.
    adapters = [port for port in behind if not port["link"].endswith(SOFTWARE)]
    if adapters and not transport.rdma:
        values = {"ports": shown, "transport": transport.name}
        return [("rdma_unused", TEXTS["rdma_unused"].format(**values))]
    return []


def rdma_of(answer: Mapping[str, Any]) -> Sequence[Mapping[str, str]]:
    """The ports that a node tells of; none where what it says is of no form that ports have."""
    ports = answer.get("rdma")
    names = {"name", "link", "state", "rate", "interface"}
    is_well = isinstance(ports, list) and all(
        isinstance(port, Mapping)
        and port.keys() == names
        and all(isinstance(value, str) and SHOWN.fullmatch(value) for value in port.values())
        for port in ports
    )
    return ports if is_well and ports else []
