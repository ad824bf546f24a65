#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: is this node fit for a run, and if not, why."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_run_probe
short_description: Tells whether a node is fit for a training run
description:
  - Looks whether the engine answers, holds the image and carries no other run; whether the data set
    is there, there is room on the disk, and the port of the run's sshd is free; whether the node
    has memory, file descriptors and readable data, and no stray processes. Changes nothing.
author: Trainyard
options:
  image:
    description: The image that the run needs, with its tag.
    type: str
    required: true
  directory:
    description: Directory that holds the runs.
    type: path
    required: true
  dataset:
    description: Directory of the data set.
    type: path
    required: true
  address:
    description: The node's address on the training network.
    type: str
    required: true
  port:
    description: Port of the run's sshd.
    type: int
    required: true
  free_gigabytes:
    description: Room that a run needs on the disk of O(directory), in 10^9 bytes.
    type: float
    required: true
  uid:
    description: User id of the training user.
    type: int
    required: true
  gid:
    description: Group id of the training user.
    type: int
    required: true
  memory_gigabytes:
    description: Memory that must be available, in 10^9 bytes.
    type: float
    required: true
  open_files:
    description: Files that a container must be able to open.
    type: int
    required: true
  transport:
    description: Transport that the image must name in its label C(trainyard.transports).
    type: str
    default: tcp
  needs_gpu:
    description: Whether the transport needs a GPU.
    type: bool
    default: false
  has_gpus:
    description: Whether the inventory gives the node's GPUs to the run.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Look at the node
  training_run_probe:
    image: trainyard/trainer:1f2e3d4c5b6a
    directory: /srv/trainyard/runs
    dataset: /srv/trainyard/data/cifar10
    address: 10.0.0.11
    port: 2222
    free_gigabytes: 2
    uid: 2000
    gid: 2000
    memory_gigabytes: 2
    open_files: 1024
"""

RETURN = r"""
reasons:
  description: Why the node is not fit; empty when it is.
  returned: always
  type: list
  elements: str
checks:
  description: What any run needs, each with name, ok, value, threshold and remedy.
  returned: always
  type: list
  elements: dict
hardware:
  description: Processor, memory, disks and network cards.
  returned: always
  type: dict
image_id:
  description: Identity of the image on this node, empty when it is not there.
  returned: always
  type: str
run:
  description: The run that holds the node, or empty.
  returned: always
  type: str
address:
  description: The address that was tried, as given.
  returned: always
  type: str
cores:
  description: Processor cores that processes on this node may use.
  returned: always
  type: int
gpus:
  description: NVIDIA GPUs of this node that a run can have.
  returned: always
  type: int
bf16:
  description: Whether the processor multiplies bfloat16 numbers itself.
  returned: always
  type: bool
"""

import os
import socket
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.check import Check
from ansible.module_utils.docker_socket import EngineError, containers, get, inspect
from ansible.module_utils.hardware import hardware
from ansible.module_utils.node_checks import (
    disk,
    is_missing,
    memory,
    open_files,
    readable,
    strays,
    trouble_at,
    writable,
)
from ansible.module_utils.run_lock import described, holder


def port_trouble(address: str, port: int) -> str:
    """Return why a port cannot be listened on, or the empty string."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, port))
        except OSError as error:
            return f"cannot listen on {address} port {port}: {error.strerror}"
    return ""


def count_gpus() -> int:
    """Return the number of GPUs that NVIDIA's kernel driver has found."""
    try:
        return len(os.listdir("/proc/driver/nvidia/gpus"))
    except FileNotFoundError:
        return 0


def multiplies_bf16() -> bool:
    """Tell whether the processor multiplies bfloat16; without, it is slower than 32 bits."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = next((line.split() for line in file if line.startswith("flags")), [])
    return bool({"avx512_bf16", "amx_bf16"}.intersection(flags))


def node_checks(wanted: dict[str, Any]) -> list[Check]:
    """Look at what every run needs of a node, engine or not."""
    checks = [memory(wanted["memory_gigabytes"]), open_files(wanted["open_files"])]
    # Where these directories are missing, set-up is: that is said once.
    if os.path.isdir(wanted["directory"]):
        checks.append(disk(wanted["directory"], wanted["free_gigabytes"]))
        checks.append(writable(wanted["directory"], wanted["uid"], wanted["gid"]))
    data = os.path.dirname(wanted["dataset"])
    if not is_missing(trouble_at(data)):
        checks.append(readable(data, wanted["uid"], wanted["gid"]))
    return checks


def stray_checks(uid: int) -> list[Check]:
    """Look for what trains and is no run's; raise EngineError where no engine answers."""
    runs = [inspect(found["Id"]) for found in containers("trainyard.run")]
    inits = [found["State"]["Pid"] for found in runs if found and found["State"]["Running"]]
    found: list[Check] = strays(uid, get("/containers/json"), inits)
    return found


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "image": {"type": "str", "required": True},
            "directory": {"type": "path", "required": True},
            "dataset": {"type": "path", "required": True},
            "address": {"type": "str", "required": True},
            "port": {"type": "int", "required": True},
            "free_gigabytes": {"type": "float", "required": True},
            "uid": {"type": "int", "required": True},
            "gid": {"type": "int", "required": True},
            "memory_gigabytes": {"type": "float", "required": True},
            "open_files": {"type": "int", "required": True},
            "transport": {"type": "str", "default": "tcp"},
            "needs_gpu": {"type": "bool", "default": False},
            "has_gpus": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    reasons: list[str] = []
    checks = node_checks(wanted)
    image_id = run = ""
    try:
        checks += stray_checks(wanted["uid"])
        image = get(f"/images/{wanted['image']}/json")
        lock = holder(wanted["directory"]) if os.path.isdir(wanted["directory"]) else None
        held = [found for found in containers("trainyard.run") if found["State"] == "running"]
        if image is None:
            reasons.append(f"it does not hold the image {wanted['image']}: run make setup")
        else:
            image_id = image["Id"]
            known = (image["Config"]["Labels"] or {}).get("trainyard.transports", "").split()
            if wanted["transport"] not in known:
                reasons.append(
                    f"the image {wanted['image']} has no transport {wanted['transport']}, "
                    f"but {', '.join(known) or 'none'}: choose another TRANSPORT"
                )
        if lock is not None or held:
            run = lock["run"] if lock is not None else held[0]["Labels"]["trainyard.run"]
            whose = described(lock) if lock is not None else f"run {run}"
            reasons.append(f"it is held by {whose}: wait for it, or make stop RUN={run}")
    except EngineError as error:
        reasons.append(f"{error}: run make setup")

    gpus = count_gpus() if wanted["has_gpus"] else 0
    if wanted["has_gpus"] and not gpus:
        reasons.append(
            "it is to have NVIDIA GPUs, and their driver shows none: run make setup for role "
            "nvidia_driver, or take this host out of group gpu_nodes"
        )
    elif wanted["needs_gpu"] and not gpus:
        reasons.append(
            f"transport {wanted['transport']} needs NVIDIA GPUs, and the inventory gives it none: "
            "choose another TRANSPORT, or put this host into group gpu_nodes"
        )

    if not os.path.isdir(wanted["directory"]):
        reasons.append(f"there is no {wanted['directory']}: run make setup")
    data_trouble = trouble_at(os.path.join(wanted["dataset"], "dataset.json"))
    if is_missing(data_trouble):
        name = os.path.basename(wanted["dataset"])
        reasons.append(f"there is no data set in {wanted['dataset']}: run make data DATASET={name}")
    elif data_trouble:
        reasons.append(
            f"the data set in {wanted['dataset']} cannot be read: {data_trouble}: see whether its "
            "share is mounted and the server of it answers"
        )
    # While a run holds the node, its own sshd holds the port: one cause is named once.
    trouble = "" if run else port_trouble(wanted["address"], wanted["port"])
    if trouble:
        reasons.append(trouble)
    module.exit_json(
        changed=False,
        reasons=reasons + [check.reason() for check in checks if not check.ok],
        checks=[check.asdict() for check in checks],
        hardware=hardware(),
        image_id=image_id,
        run=run,
        address=wanted["address"],
        cores=len(os.sched_getaffinity(0)),
        gpus=gpus,
        bf16=multiplies_bf16(),
    )


if __name__ == "__main__":
    main()
