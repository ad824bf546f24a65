#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: what a node says about itself, for comparison with the others."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: cluster_check_node
short_description: Tells releases, names and GPUs of a node
description:
  - Tells which releases of Open MPI, UCX, Docker and the kernel's GPU driver the node has, to which
    addresses it resolves the names of the cluster, in which state its GPUs are, and what it has for
    RDMA.
  - Changes nothing.
author: Trainyard
options:
  names:
    description: Name of every node, and the address that it must resolve to.
    type: dict
    required: true
  address:
    description: The node's own address on the training network.
    type: str
    required: true
  network:
    description: CIDR of the training network; empty means any.
    type: str
    default: ""
  shm_gigabytes:
    description: Room that must be in C(/dev/shm), in 10^9 bytes.
    type: float
    required: true
  gpu:
    description: Whether the inventory says that the node has GPUs.
    type: bool
    required: true
  gpu_vendor:
    description: Whose GPUs they are.
    type: str
    choices: [nvidia, amd]
    default: nvidia
  gpu_count:
    description: How many GPUs the inventory says there are; 0 says nothing.
    type: int
    default: 0
  gpu_model:
    description: Their model; empty says nothing.
    type: str
    default: ""
  gpu_celsius:
    description: Highest temperature.
    type: float
    required: true
  sys:
    description: Where the kernel tells about devices.
    type: path
    default: /sys
"""

EXAMPLES = r"""
- name: Ask the node
  cluster_check_node:
    names: {gpu01: 10.0.0.11, gpu02: 10.0.0.12}
    address: 10.0.0.11
    network: 10.0.0.0/24
    shm_gigabytes: 0.06
    gpu: true
    gpu_count: 8
    gpu_celsius: 85
"""

RETURN = r"""
nodename:
  description: The name that the node gives itself.
  returned: always
  type: str
releases:
  description: Releases by name; empty where there is none.
  returned: always
  type: dict
checks:
  description: What was looked at, each with name, ok, value, threshold and remedy.
  returned: always
  type: list
  elements: dict
gpus:
  description: GPUs with model, memory, temperature and errors.
  returned: always
  type: list
  elements: dict
interface:
  description: Its network interface in the training network; empty where it has none.
  returned: always
  type: str
rdma:
  description: Ports of adapters for RDMA, each with name, link, state, rate and interface.
  returned: always
  type: list
  elements: dict
ways:
  description: What UCX and NCCL would send over, C(ucx) and C(nccl).
  returned: always
  type: dict
port:
  description: A free TCP port of the ephemeral range; 0 where the address is another node's.
  returned: always
  type: int
"""

import ipaddress
import os
import re
import socket
import threading
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.cluster_check_finding import CodedCheck, coded
from ansible.module_utils.cluster_check_gpus import driver_release, gpu_checks, read_gpus
from ansible.module_utils.cluster_check_ports import free_port
from ansible.module_utils.cluster_check_rdma import port_checks, read_ports, ways
from ansible.module_utils.training_node.check.check import Check, equal
from ansible.module_utils.training_node.check.paths import shared_memory
from ansible.module_utils.training_node.engine.docker import EngineError, get
from ansible.module_utils.training_node.machine.hardware import interface_of

# A name server that does not answer holds up the resolver for many seconds.
RESOLVE_SECONDS = 5.0


def release(module: AnsibleModule, command: list[str]) -> str:
    """The first version number that a program prints about itself; empty where there is none."""
    if module.get_bin_path(command[0]) is None:
        return ""
    _, out, err = module.run_command(command)
    match = re.search(r"\d+\.\d+[\w.]*", out + err)
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


def name_checks(names: dict[str, str]) -> list[CodedCheck]:
    """Every name must lead to the node's address on the training network, before any other."""
    resolved = resolve(list(names))
    wrong = [
        coded(
            Check("names", ok=False, value=resolved[name], threshold=address, subject=name),
            "wrong_name",
            name=name,
        )
        for name, address in names.items()
        if resolved[name].split(" ")[0] != address
    ]
    return wrong or [coded(equal("names", "as the inventory", "as the inventory"), "")]


def address_check(address: str, network: str, own: bool) -> CodedCheck:
    """The address must be the node's, and lie in the training network."""
    inside = not network or ipaddress.ip_address(address) in ipaddress.ip_network(network)
    check = Check(
        "address",
        ok=own and inside,
        value=address if own else f"{address}, which this node does not have",
        threshold=f"its own in {network}" if network else "its own",
    )
    return coded(check, "wrong_address")


def own_port(address: str) -> int:
    """A free port on the node's address; 0 where the address is not this node's."""
    try:
        port: int = free_port(address)
    except OSError:
        return 0
    return port


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "dict", "required": True},
            "address": {"type": "str", "required": True},
            "network": {"type": "str", "default": ""},
            "shm_gigabytes": {"type": "float", "required": True},
            "gpu": {"type": "bool", "required": True},
            "gpu_vendor": {"type": "str", "default": "nvidia", "choices": ["nvidia", "amd"]},
            "gpu_count": {"type": "int", "default": 0},
            "gpu_model": {"type": "str", "default": ""},
            "gpu_celsius": {"type": "float", "required": True},
            "sys": {"type": "path", "default": "/sys"},
        },
        supports_check_mode=True,
    )
    params: dict[str, Any] = module.params
    port = own_port(params["address"])
    checks = [
        shared_memory(params["shm_gigabytes"]),
        *name_checks(params["names"]),
        address_check(params["address"], params["network"], port > 0),
    ]
    interface, rdma = interface_of(params["address"]), read_ports()
    checks += port_checks(rdma, interface)
    gpus: list[dict[str, Any]] = []
    if params["gpu"]:
        gpus, trouble = read_gpus(params["gpu_vendor"], params["sys"])
        checks += gpu_checks(
            gpus, trouble, params["gpu_count"], params["gpu_model"], params["gpu_celsius"]
        )
    module.exit_json(
        changed=False,
        nodename=os.uname().nodename,
        releases={
            "openmpi": release(module, ["mpirun", "--version"]),
            "ucx": release(module, ["ucx_info", "-v"]),
            "docker": docker_release(),
            "driver": driver_release(params["sys"]),
            "cuda": gpus[0]["cuda"] if gpus else "",
        },
        checks=[check.asdict() for check in checks],
        gpus=gpus,
        interface=interface,
        rdma=[entry.asdict() for entry in rdma],
        ways=ways(rdma, interface),
        port=port,
    )


if __name__ == "__main__":
    main()
