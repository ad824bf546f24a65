"""Action: lays out a local cluster: names, addresses, images and processor cores of its `nodes`.

Those that are `containers` and those that are `virtual` machines, with disk and tap, are returned
by themselves as well. Looks at nothing and changes nothing.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ansible.plugins.action import ActionBase

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


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible's classes have no types
    """Computes, and looks at nothing."""

    _requires_connection = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the nodes."""
        super().run(tmp, task_vars)
        _, options = self.validate_argument_spec(
            {
                "name": {"type": "str", "required": True},
                "size": {"type": "int", "required": True},
                "network": {"type": "str", "required": True},
                "images": {"type": "list", "elements": "str", "required": True},
                "cores": {"type": "int", "required": True},
                "virtual": {"type": "list", "elements": "str", "default": []},
                "directory": {"type": "path", "required": True},
                "taps": {"type": "str", "required": True},
                "gpus": {"type": "dict", "default": {}},
            }
        )
        machines = options["gpus"]
        try:
            nodes = lay_out(
                options["name"],
                options["size"],
                options["network"],
                options["images"],
                options["cores"],
            )
        except ValueError as error:
            return {"failed": True, "msg": f"local_cluster: {error} (local_cluster_network)"}
        plain = {node.name for node in nodes if node.name not in options["virtual"]}
        strange = sorted(set(machines) - plain)
        if strange:
            return {
                "failed": True,
                "msg": f"local_cluster: {', '.join(strange)} cannot have GPUs (local_cluster_gpus):"
                " a node that is a container can, by its name: node1, node2, ...",
            }
        return {
            "changed": False,
            "nodes": [asdict(node) for node in nodes],
            "containers": [
                # A node without GPUs is described as ever, so that it is not made anew.
                asdict(node) | ({"gpus": machines[node.name]} if node.name in machines else {})
                for node in nodes
                if node.name in plain
            ],
            "virtual": [
                {
                    **asdict(node),
                    "disk": f"{options['directory']}/{node.name}.disk",
                    "tap": options["taps"] + node.name.removeprefix("node"),
                }
                for node in nodes
                if node.name in options["virtual"]
            ],
        }
