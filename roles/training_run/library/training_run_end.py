#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: ends a run on a node, keeps what it leaves, and removes its containers."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_run_end
short_description: Ends a run on a node
description:
  - Interrupts what still runs of this run, writes the container's log and state into the run's
    directory and removes the container and the run's private keys. Other runs and their processes
    are never touched, because everything is found by the run's label.
author: Trainyard
options:
  run_id:
    description: The run.
    type: str
    required: true
  directory:
    description: Directory of the run.
    type: path
    required: true
  host:
    description: Name of this node; its records go to C(nodes/<host>) of the run's directory.
    type: str
    required: true
  patience:
    description: Seconds between the interrupt and the kill.
    type: int
    default: 10
"""

EXAMPLES = r"""
- name: End the run on this node
  training_run_end:
    run_id: 20261120T120000Z_vit_cifar10_b64_e5_n2_p1
    directory: /srv/trainyard/runs/20261120T120000Z_vit_cifar10_b64_e5_n2_p1
    host: node1
"""

RETURN = r"""
removed:
  description: Names of the containers that were removed.
  returned: always
  type: list
  elements: str
"""

import glob
import json
import os
import signal
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.docker_socket import containers, inspect, logs, remove, stop


def launchers(init: int) -> list[int]:
    """Return the process ids of mpirun in the container whose first process is `init`."""
    namespace = os.readlink(f"/proc/{init}/ns/pid")
    found = []
    for path in glob.glob("/proc/[0-9]*"):
        try:
            with open(f"{path}/comm", encoding="utf-8") as file:
                name = file.read().strip()
            if name in ("mpirun", "prterun") and os.readlink(f"{path}/ns/pid") == namespace:
                found.append(int(os.path.basename(path)))
        except FileNotFoundError:
            continue  # a process that ended while we looked
    return found


def interrupt(state: dict[str, Any], directory: str, patience: int) -> None:
    """Interrupt mpirun, which ends every rank, and wait until the launch has noted how it ended."""
    status_file = os.path.join(directory, "exit_status")
    if os.path.exists(status_file):
        return
    waiting = launchers(state["Pid"])
    for pid in waiting:
        os.kill(pid, signal.SIGINT)
    deadline = time.monotonic() + (patience if waiting else 0)
    while time.monotonic() < deadline and not os.path.exists(status_file):
        time.sleep(0.1)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "run_id": {"type": "str", "required": True},
            "directory": {"type": "path", "required": True},
            "host": {"type": "str", "required": True},
            "patience": {"type": "int", "default": 10},
        },
    )
    directory, patience = module.params["directory"], module.params["patience"]
    removed = []
    for found in containers(f"trainyard.run={module.params['run_id']}"):
        container, name = found["Id"], found["Names"][0].lstrip("/")
        state = inspect(container)
        if state is not None and state["State"]["Running"]:
            interrupt(state["State"], directory, patience)
            stop(container, patience)
            state = inspect(container)
        if state is not None and os.path.isdir(directory):
            records = os.path.join(directory, "nodes", module.params["host"])
            os.makedirs(records, exist_ok=True)
            with open(os.path.join(records, "container.json"), "w", encoding="utf-8") as file:
                json.dump(state, file, indent=2)
            with open(os.path.join(records, "container.log"), "wb") as file:
                file.write(logs(container))
        remove(container)
        removed.append(name)
    keys = glob.glob(os.path.join(directory, "ssh", "*_ed25519*"))
    for key in keys:
        os.remove(key)
    module.exit_json(changed=bool(removed or keys), removed=removed)


if __name__ == "__main__":
    main()
