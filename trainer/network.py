"""The training network, as the communication libraries want to have it named.

People name it once for all machines, as CIDR. Open MPI takes that as it is. Gloo, NCCL and UCX want
the name of the interface, which differs from machine to machine, so each rank looks its own up.
"""

import ipaddress
import os
import socket
from pathlib import Path

import psutil

from trainer.errors import WorldError

# The CIDR of the training network; unset or empty where there is only one machine.
VARIABLE = "TRAINYARD_NETWORK"
SYSFS = Path("/sys/class/net")


def cluster_address() -> str:
    """This machine's address on the training network; the loopback's where none is named."""
    found = _find()
    return found[1] if found else "127.0.0.1"


def use_cluster_network() -> None:
    """Point Gloo, NCCL and UCX to the training network. Call it before any of them starts.

    What is set already wins: it came from the settings of the site.

    Raises:
        WorldError: this machine has no address on that network.
    """
    found = _find()
    if found is None:
        return
    interface = found[0]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    # "=": this name, not whatever begins with it.
    os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={interface}")
    os.environ.setdefault("UCX_NET_DEVICES", ",".join([*rdma_ports(interface), interface]))


def rdma_ports(interface: str, sysfs: Path = SYSFS) -> list[str]:
    """RDMA devices behind an interface, as UCX names them (`mlx5_0:1`); mostly none."""
    devices = sysfs / interface / "device" / "infiniband"
    if not devices.is_dir():
        return []
    port = int((sysfs / interface / "dev_port").read_text()) + 1
    return [f"{device.name}:{port}" for device in sorted(devices.iterdir())]


def _find() -> tuple[str, str] | None:
    """Name of the interface in the training network, and its address there."""
    cidr = os.environ.get(VARIABLE, "")
    if not cidr:
        return None
    network = ipaddress.ip_network(cidr, strict=False)
    for interface, addresses in sorted(psutil.net_if_addrs().items()):
        for entry in addresses:
            if entry.family not in (socket.AF_INET, socket.AF_INET6):
                continue
            # Link-local IPv6 addresses carry their interface: fe80::1%eth0.
            if ipaddress.ip_address(entry.address.partition("%")[0]) in network:
                return interface, entry.address
    raise WorldError(
        f"{socket.gethostname()} has no address in the training network {cidr}: "
        "correct cluster_network, or the machine's address"
    )
