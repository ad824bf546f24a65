"""The training network, as the communication libraries want to have it named.

People name it once for all machines, as CIDR. Gloo, NCCL and UCX want the name of the interface,
which differs from machine to machine, so every rank looks its own up. Open MPI is told by the
launch, but of a network of IPv6 only where the interface has the same name on all nodes: it takes
no CIDR of those, and the rank says the name.
"""

import ipaddress
import os
import socket
from dataclasses import dataclass
from pathlib import Path

import psutil

from trainer.errors import ClusterAddressError
from trainer.sysfs import read_text

# The CIDR of the training network; unset or empty where there is only one machine.
VARIABLE = "TRAINYARD_NETWORK"
SYSFS = Path("/sys/class/infiniband")


@dataclass(frozen=True)
class Interface:
    """A network interface.

    Attributes:
        name: "eth0" or the like.
        address: its address in the training network.
    """

    name: str
    address: str


def cluster_address() -> str:
    """This machine's address on the training network; the loopback's where none is named."""
    interface = _cluster_interface()
    return interface.address if interface else "127.0.0.1"


def listen(address: str, port: int = 0) -> socket.socket:
    """Listen on an address of this machine, of IPv4 or IPv6.

    Args:
        port: 0 for any that is free.

    Raises:
        OSError: the port is taken.
    """
    family = socket.AF_INET6 if _is_ipv6(address) else socket.AF_INET
    return socket.create_server((address, port), family=family)


def use_cluster_network() -> None:
    """Point the communication libraries to the training network. Call it before they start.

    What is set already wins: it came from the settings of the site.

    Raises:
        ClusterAddressError: this machine has no address on that network.
    """
    interface = _cluster_interface()
    if interface is None:
        return
    name = interface.name
    os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
    # "=": this name, not whatever begins with it.
    os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={name}")
    ports = rdma_ports(name, SYSFS)
    os.environ.setdefault("UCX_NET_DEVICES", ",".join([*ports, name]))
    if any(is_software(port, SYSFS) for port in ports):
        # UCX connects by datagrams. Those of rxe got through only without this check (UCX 1.13.1
        # and 1.18.1, Linux 6.1): else "unhandled timeout error". Adapters keep it.
        os.environ.setdefault("UCX_UD_VERBS_ETH_DGID_CHECK", "n")
    if _is_ipv6(interface.address):
        os.environ.setdefault("OMPI_MCA_btl_tcp_if_include", name)
        # NCCL looks for addresses of IPv4 first, and the interface may have some of both kinds.
        os.environ.setdefault("NCCL_SOCKET_FAMILY", "AF_INET6")


def rdma_ports(interface: str, sysfs: Path) -> list[str]:
    """RDMA ports behind an interface, as UCX names them (`mlx5_0:1`); mostly none.

    `make verify` finds them in the same way (node/check/rdma.py), and says what it found.

    Args:
        sysfs: where the kernel tells of them, see Documentation/ABI/stable/sysfs-class-infiniband.
    """
    return [
        f"{port.parent.parent.name}:{port.name}"
        for port in sorted(sysfs.glob("*/ports/*"))
        if interface and _interface_of(port) == interface
    ]


def is_software(port: str, sysfs: Path) -> bool:
    """Tell whether the kernel plays the adapter of a port (rxe): no hardware is behind it."""
    return not (sysfs / port.partition(":")[0] / "device").exists()


def _interface_of(port: Path) -> str:
    """The network interface of a port; empty where it has none.

    RoCE names it beside its addresses. InfiniBand does not, and has the interfaces of its adapter,
    which count ports from 0; software (rxe) is no part of an adapter.
    """
    named = read_text(port / "gid_attrs/ndevs/0")
    if named:
        return named
    for interface in sorted((port.parent.parent / "device/net").glob("*")):
        if read_text(interface / "dev_port") == str(int(port.name) - 1):
            return interface.name
    return ""


def _is_ipv6(address: str) -> bool:
    return ":" in address


def _cluster_interface() -> Interface | None:
    """The interface in the training network; None where no network is named."""
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
                return Interface(interface, entry.address)
    raise ClusterAddressError(host=socket.gethostname(), network=cidr)
