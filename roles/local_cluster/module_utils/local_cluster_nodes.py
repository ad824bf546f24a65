# Copyright Trainyard. Apache-2.0
"""The nodes of a local cluster: names, addresses, and which cores of this machine each may use."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

# The first node's address in its network: the ones before it are the machine's own, and free for
# what a test puts beside the nodes.
FIRST_ADDRESS = 11


@dataclass(frozen=True)
class Node:
    """One node.

    Attributes:
        name: in the inventory.
        container: name of the container; a virtual machine has one of that name for its network.
        address: on the cluster's network.
        image: what it is made from.
        cores: processor cores, as `docker run --cpuset-cpus` takes them.
    """

    name: str
    container: str
    address: str
    image: str
    cores: str


def lay_out(cluster: str, size: int, network: str, images: Sequence[str], cores: int) -> list[Node]:
    """Lay a cluster out.

    Args:
        cluster: prefix of the containers.
        size: how many nodes.
        network: CIDR.
        images: taken in turns.
        cores: of this machine.

    Raises:
        ValueError: the network is none, or has not so many addresses.
    """
    addresses = ipaddress.ip_network(network, strict=False)
    if FIRST_ADDRESS + size > addresses.num_addresses:
        raise ValueError(f"{network} has not enough addresses for {size} nodes")
    return [
        Node(
            name=f"node{index + 1}",
            container=f"{cluster}-node{index + 1}",
            address=str(addresses[FIRST_ADDRESS + index]),
            image=images[index % len(images)],
            cores=cores_of(index, size, cores),
        )
        for index in range(size)
    ]


def cores_of(index: int, size: int, cores: int) -> str:
    """The cores of a node: a part of its own, or one that it shares where there are too few."""
    if cores < size:
        return str(index % cores)
    first, last = index * cores // size, (index + 1) * cores // size - 1
    # One core is always written the same: a node whose cores stay is not made anew.
    return str(first) if first == last else f"{first}-{last}"
