#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: the files of machines with a stand-in for NVIDIA's driver."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: local_cluster_gpus
short_description: Writes the files of machines with a stand-in for NVIDIA's driver
description:
  - Writes a folder for each machine, which is copied to its root.
author: Trainyard
options:
  machines:
    description: GPUs by machine, each with C(profile), C(count), C(driver) and C(toolkit).
    type: dict
    required: true
  files:
    description: What each of them has besides, C(nvidia-smi) among it.
    type: path
    required: true
  directory:
    description: Where the folders are made.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Make the files of the drivers
  local_cluster_gpus:
    machines: {node1: {profile: t4, count: 2, driver: 550.163.01, toolkit: true}}
    files: roles/local_cluster/files/stand_in_driver
    directory: /srv/cluster/gpus
"""

RETURN = r"""
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.local_cluster_gpus import GpuMachine, GpuMachineError, write_driver


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "machines": {"type": "dict", "required": True},
            "files": {"type": "path", "required": True},
            "directory": {"type": "path", "required": True},
        }
    )
    directory, files = (Path(module.params[name]) for name in ("directory", "files"))
    try:
        machines = {
            name: GpuMachine.read(entry) for name, entry in module.params["machines"].items()
        }
    except GpuMachineError as error:
        module.fail_json(msg=f"local_cluster: {error} (local_cluster_gpus)")
    for name, machine in machines.items():
        write_driver(directory / name, machine, files)
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
