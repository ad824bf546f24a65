"""What is worth knowing of a cluster and is nobody's fault."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..check.rdma import ACTIVE, SOFTWARE
from .cluster import Cluster
from .network import matches_of

# What training over several machines should have between two of them, in Gbit/s; and the share of
# the median below which a pair has something of its own.
GIGABITS, FAR_BELOW = 10, 0.5
# Of the slowest; a node that is slow to all others would have one for each.
MOST_PAIRS = 5
# What a node may say of a port: it is shown on terminals.
SHOWN = re.compile(r"[ -~]{0,64}")
# By code; names in braces are filled in.
TEXTS = {
    "rdma_unused": (
        "RDMA is there ({ports}) but TRANSPORT={transport}, the default of runs, does not use "
        "it: TRANSPORT=ucx does, and nccl between GPUs; training_run_transport sets it for all runs"
    ),
    "rdma_elsewhere": (
        "RDMA is there ({ports}), but not behind the training network, so UCX sends over {ucx}: "
        "cluster_network decides which interface that is"
    ),
    "network_slow": (
        "the median of the pairs is {median} Gbit/s, and training over several machines should "
        "have {wanted}: look at communication in the report of a run; a larger BATCH= exchanges "
        "less often"
    ),
    "pair_slow": (
        "{a} to {b} has {rate} Gbit/s, and the median of the pairs is {median}: look at cables, "
        "ports and the route between the two"
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
    rdma = [Note(code, tuple(hosts), text) for (code, text), hosts in said.items()]
    return [*_of_network(cluster), *rdma]


def _of_network(cluster: Cluster) -> Iterator[Note]:
    """A network that passes, and is slow all the same: all of it, or a pair."""
    rates = matches_of(cluster).gigabits
    if not rates:
        return
    median = statistics.median(rates.values())
    values = {"median": f"{median:.3g}", "wanted": GIGABITS}
    if median < GIGABITS:
        yield Note("network_slow", tuple(cluster.up), TEXTS["network_slow"].format(**values))
    for rate, (a, b) in sorted((rate, pair) for pair, rate in rates.items())[:MOST_PAIRS]:
        if cluster.thresholds.bandwidth_gigabits <= rate < FAR_BELOW * median:
            text = TEXTS["pair_slow"].format(a=a, b=b, rate=f"{rate:.3g}", **values)
            yield Note("pair_slow", (a, b), text)


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
