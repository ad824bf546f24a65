"""RDMA on a machine: which ports its adapters have, and which of them libraries would take."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..machine.hardware import listed, read_text
from .check import Check, equal

SYS = "/sys/class/infiniband"
ACTIVE = "ACTIVE"
# Behind the link layer of what is no adapter.
SOFTWARE = " software"


@dataclass(frozen=True)
class RdmaPort:
    """A port of an adapter for RDMA.

    Attributes:
        name: as UCX and NCCL name it: `mlx5_0:1`.
        link: `InfiniBand`, or `Ethernet` for RoCE and iWARP; `software` behind it where the kernel
            plays the adapter itself (rxe, siw).
        state: of the port: `ACTIVE`, `DOWN`, `INIT` and others.
        rate: as the kernel says it: `200 Gb/sec (4X HDR)`.
        interface: the network interface of the port; empty where it has none.
    """

    name: str
    link: str
    state: str
    rate: str
    interface: str

    def asdict(self) -> dict[str, Any]:
        return asdict(self)


def read_ports(sys: str = SYS) -> list[RdmaPort]:
    """All ports of this machine, by name; mostly none.

    Args:
        sys: where the kernel tells of them, see Documentation/ABI/stable/sysfs-class-infiniband.
    """
    ports = []
    for device in listed(sys):
        for number in listed(f"{sys}/{device}/ports"):
            port = f"{sys}/{device}/ports/{number}"
            ports.append(
                RdmaPort(
                    name=f"{device}:{number}",
                    link=f"{read_text(f'{port}/link_layer')}{_software(f'{sys}/{device}')}",
                    # "4: ACTIVE"
                    state=read_text(f"{port}/state").rpartition(" ")[2],
                    rate=read_text(f"{port}/rate"),
                    interface=_interface(f"{sys}/{device}", port, int(number)),
                )
            )
    return ports


def _software(device: str) -> str:
    """What the link of a device is called beside its layer: no hardware is behind those of rxe."""
    return "" if os.path.exists(f"{device}/device") else SOFTWARE


def _interface(device: str, port: str, number: int) -> str:
    """The network interface of a port: as RoCE has it, else as the adapter's interfaces say."""
    named: str = read_text(f"{port}/gid_attrs/ndevs/0")
    if named:
        return named
    interface: str
    for interface in listed(f"{device}/device/net"):
        # Counted from 0, and the ports from 1.
        if read_text(f"{device}/device/net/{interface}/dev_port") == str(number - 1):
            return interface
    return ""


def port_checks(ports: Sequence[RdmaPort], interface: str) -> list[Check]:
    """The ports behind the training network must carry something.

    Args:
        interface: the one in the training network.
    """
    return [
        equal("RDMA port", port.state or "unknown", ACTIVE, "rdma_down", subject=port.name)
        for port in ports
        if interface and port.interface == interface
    ]


def ways(ports: Sequence[RdmaPort], interface: str) -> dict[str, str]:
    """What the libraries send over: devices for RDMA by name, or else the interface.

    UCX is told the ports behind the training network and its interface (trainer/network.py), and
    takes the first that works. NCCL takes all ports that are active, and the interface for the
    rest.

    Args:
        interface: the one in the training network.
    """
    active = [port for port in ports if port.state == ACTIVE]
    behind = [port.name for port in active if interface and port.interface == interface]
    return {
        "ucx": ",".join(behind) or interface,
        "nccl": ",".join(port.name for port in active) or interface,
    }
