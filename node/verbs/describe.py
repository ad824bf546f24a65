"""The verb `describe`: what a node says about itself, for comparison with the others."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import subprocess
import threading
from typing import Any, NamedTuple

from ..check.check import Check, check, equal
from ..check.gpu_health import driver_release, gpu_checks, read_gpus
from ..check.paths import shared_memory
from ..check.rdma import port_checks, read_ports, ways
from ..engine.docker import EngineError, get
from ..machine.gpus import NVIDIA
from ..machine.hardware import any_port, interface_of

# A name server that does not answer holds up the resolver for many seconds.
RESOLVE_SECONDS = 5.0


class Expected(NamedTuple):
    """What the inventory says of a node.

    Attributes:
        names: of every node, and the address that it must resolve to.
        network: CIDR of the training network; empty means any.
        shm_gigabytes: that must be free in /dev/shm, in 10^9 bytes.
        gpu_vendor: whose, nvidia or amd.
        gpu_count: how many; 0 says nothing.
        gpu_model: empty says nothing.
        sys: where the kernel tells about devices.
    """

    names: dict[str, str]
    address: str
    network: str
    shm_gigabytes: float
    gpu: bool
    gpu_celsius: float
    gpu_vendor: str = NVIDIA
    gpu_count: int = 0
    gpu_model: str = ""
    sys: str = "/sys"


def release(*command: str) -> str:
    """The first version number that a program prints about itself; empty where there is none."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
        )
    except OSError:
        return ""
    match = re.search(r"\d+\.\d+[\w.]*", done.stdout + done.stderr)
    return match[0] if match else ""


def docker_release() -> str:
    """Release of the engine; empty where none answers."""
    try:
        return str(get("/version")["Version"])
    except EngineError:
        return ""


def resolve(names: list[str]) -> dict[str, str]:
    """Address of each name, as programs get it; what went wrong, where there is none."""
    addresses = dict.fromkeys(names, f"no answer within {RESOLVE_SECONDS:g} s")

    def ask(name: str) -> None:
        try:
            answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            addresses[name] = " ".join(dict.fromkeys(str(answer[4][0]) for answer in answers))
        except OSError as error:
            addresses[name] = str(error.strerror)

    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(RESOLVE_SECONDS)
    return dict(addresses)


def name_checks(names: dict[str, str]) -> list[Check]:
    """Every name must lead to the node's address on the training network, before any other."""
    resolved = resolve(list(names))
    wrong = [
        equal("names", resolved[name], address, "wrong_name", subject=name, name=name)
        for name, address in names.items()
        if resolved[name].split(" ")[0] != address
    ]
    return wrong or [equal("names", "as the inventory", "as the inventory")]


def address_check(address: str, network: str, own: bool) -> Check:
    """The address must be the node's, and lie in the training network."""
    inside = not network or ipaddress.ip_address(address) in ipaddress.ip_network(network)
    value = address if own else f"{address}, which this node does not have"
    wanted = f"its own in {network}" if network else "its own"
    return check("address", own and inside, value, wanted, "wrong_address")


def own_port(address: str) -> int:
    """A free port on the node's address; 0 where the address is not this node's."""
    try:
        return any_port(address)
    except OSError:
        return 0


def describe(expected: Expected) -> dict[str, Any]:
    """Tell what the node is.

    Returns:
        `nodename`: the name that it gives itself. `releases` by name, empty where there is none.
        `checks`: what was looked at. `gpus`: with model, memory, temperature and errors.
        `interface`: of it in the training network, empty where it has none. `rdma`: ports of
        adapters, see check.rdma; `ways`: what UCX and NCCL would send over. `port`: a free TCP port
        of the ephemeral range, 0 where the address is another node's.
    """
    port = own_port(expected.address)
    checks = [
        shared_memory(expected.shm_gigabytes),
        *name_checks(expected.names),
        address_check(expected.address, expected.network, port > 0),
    ]
    interface, rdma = interface_of(expected.address), read_ports()
    checks += port_checks(rdma, interface)
    gpus: list[dict[str, Any]] = []
    if expected.gpu:
        gpus, trouble = read_gpus(expected.gpu_vendor, expected.sys)
        checks += gpu_checks(
            gpus, trouble, expected.gpu_count, expected.gpu_model, expected.gpu_celsius
        )
    return {
        "nodename": os.uname().nodename,
        "releases": {
            "openmpi": release("mpirun", "--version"),
            "ucx": release("ucx_info", "-v"),
            "docker": docker_release(),
            "driver": driver_release(expected.sys),
            "cuda": gpus[0]["cuda"] if gpus else "",
        },
        "checks": [entry.asdict() for entry in checks],
        "gpus": gpus,
        "interface": interface,
        "rdma": [entry.asdict() for entry in rdma],
        "ways": ways(rdma, interface),
        "port": port,
    }
