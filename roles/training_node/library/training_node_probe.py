#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: is this node fit for a run, and if not, why."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_node_probe
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
  data:
    description: Directory that holds the data sets.
    type: path
    required: true
  dataset:
    description: >-
      The data set that the run needs, a directory below O(data); with O(own_data) it may be the
      absolute path of any folder of the node. Empty looks for none.
    type: str
    default: ""
  own_data:
    description: >-
      Whether that is data of a user's own, of which any directory with something in it will do.
    type: bool
    default: false
  address:
    description: The node's address on the training network.
    type: str
    required: true
  port:
    description: Port of the run's sshd.
    type: int
    required: true
  ports:
    description: >-
      How many ports from O(port) on runs that share the node may take, one each. A run that has the
      whole node takes the first.
    type: int
    default: 1
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
    description: >-
      Transport that the image must name in its label C(trainyard.transports). Empty asks for none.
    type: str
    default: ""
  needs_gpu:
    description: Whether the transport needs a GPU.
    type: bool
    default: false
  gpus:
    description: >-
      GPUs that the inventory gives to the run: V(all), or their numbers or UUIDs with commas
      between. Empty gives none.
    type: str
    default: ""
  gpu_vendor:
    description: Whose GPUs they are.
    type: str
    choices: [nvidia, amd]
    default: nvidia
  gpus_wanted:
    description: >-
      How many of those the run takes, beside other runs; V(0) takes the whole node.
    type: int
    default: 0
  site:
    description: What all who use the node have alike, name to value. Empty compares nothing.
    type: dict
    default: {}
  operator:
    description: Name of the checkout and the machine from which the run is launched.
    type: str
    default: ""
  sys:
    description: Where the kernel tells about devices.
    type: path
    default: /sys
"""

EXAMPLES = r"""
- name: Look at the node
  training_node_probe:
    image: trainyard/trainer:1f2e3d4c5b6a
    directory: /srv/trainyard/runs
    data: /srv/trainyard/data
    dataset: cifar10
    address: 10.0.0.11
    port: 2222
    free_gigabytes: 2
    uid: 2000
    gid: 2000
    memory_gigabytes: 2
    open_files: 1024
"""

RETURN = r"""
problems:
  description: >-
    Why the node is not fit; empty when it is. Each has a code, the values that belong to it, and
    a text for people.
  returned: always
  type: list
  elements: dict
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
  description: A run that holds the node or a part of it, or empty.
  returned: always
  type: str
address:
  description: The address that was tried, as given.
  returned: always
  type: str
interface:
  description: Network interface with that address; empty where none has it.
  returned: always
  type: str
cores:
  description: Processor cores that processes on this node may use.
  returned: always
  type: int
gpus:
  description: How many GPUs of this node runs can have.
  returned: always
  type: int
gpu_devices:
  description: >-
    Those GPUs, each with index, uuid, model, slot, driver, memory_bytes, celsius,
    uncorrected_errors, capability, trouble, vendor, device and mig.
  returned: always
  type: list
  elements: dict
gpus_idle:
  description: Index and uuid of those that nobody holds or computes on.
  returned: always
  type: list
  elements: dict
bf16:
  description: >-
    Whether all GPUs that runs can have multiply bfloat16 numbers themselves, or, without any, the
    processor.
  returned: always
  type: bool
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node.engine.containers import (
    EngineError,
    containers,
    image,
    inspect,
    is_native,
    require_engine,
    running_containers,
)
from ansible.module_utils.training_node.machine.gpus import AMD, NVIDIA
from ansible.module_utils.training_node.machine.hardware import (
    hardware,
    interface_of,
    multiplies_bf16,
)
from ansible.module_utils.training_node.runs.lock import holder_values, holders
from ansible.module_utils.training_node_account import with_account
from ansible.module_utils.training_node_check import Check
from ansible.module_utils.training_node_checks import (
    disk,
    is_missing,
    memory,
    open_files,
    readable,
    stray_checks,
    strays,
    trouble_at,
    trouble_in,
    writable,
)
from ansible.module_utils.training_node_folder import FolderError, find_mount
from ansible.module_utils.training_node_gpu_fit import GpuFit, look_at_gpus, specification_problems
from ansible.module_utils.training_node_parts import (
    free_gpus,
    free_port,
    held_gpus,
    in_the_way,
    shortage,
    why_deaf,
)
from ansible.module_utils.training_node_problems import Problem, failed_check, no_engine, problem
from ansible.module_utils.training_node_site import SiteError, read_site, use_problems


@dataclass(frozen=True)
class Needs:
    """What a run needs of the node; see the documentation of the module's options."""

    image: str
    directory: str
    data: str
    dataset: str
    own_data: bool
    address: str
    port: int
    ports: int
    free_gigabytes: float
    uid: int
    gid: int
    memory_gigabytes: float
    open_files: int
    transport: str
    needs_gpu: bool
    gpus: str
    gpu_vendor: str
    gpus_wanted: int
    site: Mapping[str, Any]
    operator: str
    sys: str


@dataclass
class EngineAnswer:
    """What the engine says.

    Attributes:
        image_id: identity of the image; empty where it is not there.
        labels: of the image; None where it is not there.
        locks: of the live runs that hold the node or parts of it.
        run: one of them, or of which only a container is there; empty where there is none.
        strays: what trains and belongs to no run; None where no engine answered.
        problems: why the node is not fit.
    """

    image_id: str = ""
    labels: dict[str, str] | None = None
    locks: list[dict[str, Any]] = field(default_factory=list)
    run: str = ""
    strays: list[Problem] | None = None
    problems: list[Problem] = field(default_factory=list)


def ask_engine(needs: Needs) -> EngineAnswer:
    """Ask the engine for the image, for runs and for what belongs to none."""
    answer = EngineAnswer()
    try:
        require_engine()
        answer.strays = ask_strays(needs.uid)
        ask_image(needs, answer)
        if needs.gpus and needs.gpu_vendor == NVIDIA:
            answer.problems += specification_problems(needs.sys)
        elif needs.gpus and is_native():
            answer.problems.append(problem("gpus_not_native"))
        ask_holder(needs, answer)
    except EngineError as error:
        answer.problems.append(no_engine(error))
    return answer


def ask_strays(uid: int) -> list[Problem]:
    """Return what trains and belongs to no run; an account's own processes may do anything."""
    if is_native():
        return []
    runs = [inspect(container["Id"]) for container in containers("trainyard.run")]
    inits = [state["State"]["Pid"] for state in runs if state and state["State"]["Running"]]
    problems: list[Problem] = strays(uid, running_containers(), inits)
    return problems


def ask_image(needs: Needs, answer: EngineAnswer) -> None:
    """See whether the image is there and can do the transport."""
    details = image(needs.image)
    if details is None:
        answer.problems.append(problem("image_missing", image=needs.image))
        return
    answer.image_id = details["Id"]
    answer.labels = details["Config"]["Labels"] or {}
    transports = answer.labels.get("trainyard.transports", "").split()
    if needs.transport and needs.transport not in transports:
        answer.problems.append(
            problem(
                "transport_missing",
                image=needs.image,
                transport=needs.transport,
                transports=", ".join(transports) or "none",
            )
        )


def ask_holder(needs: Needs, answer: EngineAnswer) -> None:
    """See which runs have the node: by their locks, or by a container that still runs."""
    if os.path.isdir(needs.directory):
        answer.locks = holders(needs.directory)
    with_lock = [lock["run"] for lock in answer.locks]
    running = [
        entry["Labels"]["trainyard.run"]
        for entry in containers("trainyard.run")
        if entry["State"] == "running"
    ]
    answer.run = next(iter([*with_lock, *running]), "")
    answer.problems += [
        problem("held", **holder_values(lock))
        for lock in in_the_way(answer.locks, needs.gpus_wanted)
    ]
    lockless = [run for run in running if run not in with_lock]
    if lockless and (needs.gpus_wanted or not answer.locks):
        answer.problems.append(problem("held_by_container", run=lockless[0]))


def check_node(needs: Needs) -> list[Check]:
    """Look at what every run needs of a node, engine or not."""
    checks = [memory(needs.memory_gigabytes), open_files(needs.open_files)]
    # Where these directories are missing, set-up is: that is said once.
    if os.path.isdir(needs.directory):
        checks.append(disk(needs.directory, needs.free_gigabytes))
        checks.append(writable(needs.directory, needs.uid, needs.gid))
    if not is_missing(trouble_at(needs.data)):
        checks.append(readable(needs.data, needs.uid, needs.gid))
    return checks


def look_for_gpus(needs: Needs, engine: EngineAnswer) -> GpuFit:
    """Compare the GPUs that a run can have with those that it needs."""
    if not needs.gpus:
        lacking = [problem("gpu_not_given", transport=needs.transport)] if needs.needs_gpu else []
        return GpuFit(problems=[*lacking, *shortage([], needs.gpus_wanted, 0, 0)])
    fit: GpuFit = look_at_gpus(
        needs.gpus,
        needs.image,
        engine.labels,
        needs.sys,
        needs.gpus_wanted,
        held_gpus(engine.locks),
        needs.gpu_vendor,
    )
    # Of a node that somebody has as a whole that is said. What computes there are that one's ranks:
    # nobody is to kill them.
    if in_the_way(engine.locks, needs.gpus_wanted) or "held_by_container" in [
        found.code for found in engine.problems
    ]:
        return replace(fit, problems=[found for found in fit.problems if found.code != "gpu_busy"])
    # Of GPUs that cannot be asked that is said.
    if fit.gpus:
        few = shortage(engine.locks, needs.gpus_wanted, len(fit.idle), len(fit.gpus))
        return replace(fit, problems=[*few, *fit.problems])
    return fit


def computes_in_bf16(gpus: GpuFit) -> bool:
    """Whether what computes on this node multiplies bfloat16: its GPUs, else the processor."""
    if gpus.gpus:
        # One that is lost says nothing, and computes nothing.
        return all(gpu.multiplies_bf16 for gpu in gpus.gpus if not gpu.trouble)
    processor: bool = multiplies_bf16()
    return processor


def path_problems(needs: Needs) -> list[Problem]:
    """Look for the directory of the runs and for the data set."""
    problems = []
    if not os.path.isdir(needs.directory):
        problems.append(problem("no_directory", path=needs.directory))
    if not needs.dataset:
        return problems
    if needs.own_data and os.path.isabs(needs.dataset):
        try:
            find_mount(needs.dataset, needs.uid, needs.gid, needs.directory)
        except FolderError as error:
            problems.append(error.problem)
        return problems
    path = os.path.join(needs.data, needs.dataset)
    # Data is put in place as a whole; what comes from elsewhere has at least something in it.
    trouble = trouble_in(path) if needs.own_data else trouble_at(os.path.join(path, "dataset.json"))
    if is_missing(trouble) and needs.own_data:
        problems.append(problem("own_data_missing", path=path, dataset=needs.dataset))
    elif is_missing(trouble):
        problems.append(problem("dataset_missing", path=path, dataset=needs.dataset))
    elif trouble:
        problems.append(problem("dataset_unreadable", path=path, message=trouble))
    return problems


def site_problems(needs: Needs) -> list[Problem]:
    """Compare with what those agreed on who use this node too."""
    try:
        problems: list[Problem] = use_problems(read_site(), needs.site, needs.operator)
    except SiteError as error:
        return [problem("site_unreadable", message=str(error))]
    return problems


def port_problems(needs: Needs, engine: EngineAnswer) -> list[Problem]:
    """See whether there is a port for the run's sshd."""
    address, first = needs.address, needs.port
    if needs.gpus_wanted or is_native():
        last = first + needs.ports - 1
        if free_port(address, range(first, last + 1), engine.locks) is None:
            return [problem("ports_taken", address=address, first=first, last=last)]
        return []
    # While a run holds the node, its own sshd holds the port: one cause is named once.
    message = "" if engine.run else why_deaf(address, first)
    return [problem("port_taken", address=address, port=first, message=message)] if message else []


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "image": {"type": "str", "required": True},
            "directory": {"type": "path", "required": True},
            "data": {"type": "path", "required": True},
            "dataset": {"type": "str", "default": ""},
            "own_data": {"type": "bool", "default": False},
            "address": {"type": "str", "required": True},
            "port": {"type": "int", "required": True},
            "ports": {"type": "int", "default": 1},
            "free_gigabytes": {"type": "float", "required": True},
            "uid": {"type": "int", "required": True},
            "gid": {"type": "int", "required": True},
            "memory_gigabytes": {"type": "float", "required": True},
            "open_files": {"type": "int", "required": True},
            "transport": {"type": "str", "default": ""},
            "needs_gpu": {"type": "bool", "default": False},
            "gpus": {"type": "str", "default": ""},
            "gpu_vendor": {"type": "str", "default": NVIDIA, "choices": [NVIDIA, AMD]},
            "gpus_wanted": {"type": "int", "default": 0},
            "site": {"type": "dict", "default": {}},
            "operator": {"type": "str", "default": ""},
            "sys": {"type": "path", "default": "/sys"},
        },
        supports_check_mode=True,
    )
    needs = Needs(**with_account(module.params))
    checks = check_node(needs)
    engine = ask_engine(needs)
    gpus = look_for_gpus(needs, engine)
    problems = [
        *engine.problems,
        *gpus.problems,
        *path_problems(needs),
        *site_problems(needs),
        *port_problems(needs, engine),
        *(failed_check(check) for check in checks if not check.ok),
        *(engine.strays or []),
    ]
    if engine.strays is not None:
        checks += stray_checks(engine.strays)
    module.exit_json(
        changed=False,
        problems=[entry.asdict() for entry in problems],
        checks=[check.asdict() for check in checks],
        hardware=hardware(),
        image_id=engine.image_id,
        run=engine.run,
        address=needs.address,
        interface=interface_of(needs.address),
        cores=len(os.sched_getaffinity(0)),
        gpus=len(gpus.gpus),
        gpu_devices=[gpu.asdict() for gpu in gpus.gpus],
        gpus_idle=free_gpus([gpu.asdict() for gpu in gpus.idle], engine.locks),
        bf16=computes_in_bf16(gpus),
    )


if __name__ == "__main__":
    main()
