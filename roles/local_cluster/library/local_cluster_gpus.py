#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: the files of machines with a mock of NVIDIA's driver."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: local_cluster_gpus
short_description: Writes the files of machines with a mock of NVIDIA's driver
description:
  - Writes a folder for each machine, which is copied to its root. C(nvidia-smi) is fetched with apt
    at the first time, from Debian's part non-free, and kept in the checkout. So is the toolkit's
    hook, which is built where the tools have its sources only.
author: Trainyard
options:
  tools:
    description: Folder of NVIDIA's tools; empty takes C(../shared/gpu) beside the checkout.
    type: path
    default: ""
  checkout:
    description: The checkout.
    type: path
    required: true
  machines:
    description: GPUs by machine, each with C(profile), C(count), C(driver) and C(toolkit).
    type: dict
    required: true
  directory:
    description: Where the folders are made.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Make the files of the drivers
  local_cluster_gpus:
    checkout: /srv/trainyard
    machines: {node1: {profile: t4, count: 2, driver: 550.163.01, toolkit: true}}
    directory: /srv/cluster/gpus
"""

RETURN = r"""
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from ansible.module_utils.local_cluster_gpu_tools import (
        GpuToolsError,
        fetch_hook,
        fetch_smi,
        find_tools,
        smi_release,
    )
    from ansible.module_utils.local_cluster_gpus import GpuMachine, write_driver
except ImportError as error:
    MISSING = str(error)
else:
    MISSING = ""


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "tools": {"type": "path", "default": ""},
            "checkout": {"type": "path", "required": True},
            "machines": {"type": "dict", "required": True},
            "directory": {"type": "path", "required": True},
        }
    )
    if MISSING:
        module.fail_json(msg=f"local_cluster: {missing_required_lib('PyYAML')} {MISSING}")
    checkout = Path(module.params["checkout"]).resolve()
    cache = checkout / ".trainyard/gpus"
    try:
        tools = find_tools(checkout, module.params["tools"])
        hook = fetch_hook(tools, cache)
        for name, entry in module.params["machines"].items():
            machine = GpuMachine.read(entry)
            smi = fetch_smi(smi_release(machine.driver), cache)
            write_driver(Path(module.params["directory"]) / name, tools, smi, machine, hook)
    except GpuToolsError as error:
        module.fail_json(msg=f"local_cluster: {error} (local_cluster_gpus)")
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
