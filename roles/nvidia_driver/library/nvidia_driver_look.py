#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: the NVIDIA GPUs of a machine, and what drives them."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nvidia_driver_look
short_description: Tells which NVIDIA GPUs a machine has, and what drives them
description:
  - Lists the GPUs on the PCI bus, chooses the kernel modules that fit them, and compares the
    module that is loaded with the programs that are installed. Changes nothing.
author: Trainyard
options:
  sys:
    description: Where the kernel tells about devices and modules.
    type: path
    default: /sys
  branch:
    description: Branch of the driver that is wanted.
    type: int
    required: true
  modules:
    description: Kind of kernel modules that is wanted.
    type: str
    choices: [auto, open, proprietary, site]
    default: auto
"""

EXAMPLES = r"""
- name: Look for GPUs
  nvidia_driver_look:
    branch: 550
"""

RETURN = r"""
cards:
  description: GPUs on the PCI bus, each with slot, device and generation.
  returned: always
  type: list
  elements: dict
switches:
  description: Number of NVSwitches on the PCI bus.
  returned: always
  type: int
modules:
  description: The kind of kernel modules that fits.
  returned: always
  type: str
misfit:
  description: Why no driver of this branch and kind fits the GPUs; empty where one does.
  returned: always
  type: str
loaded:
  description: Version of the kernel module that is loaded; empty where none is.
  returned: always
  type: str
built:
  description: Version of the module that the running kernel would load; empty where it has none.
  returned: always
  type: str
library:
  description: Version of the installed library that programs reach the module with.
  returned: always
  type: str
reboot:
  description: Why the machine must be rebooted before the driver works; empty where it need not.
  returned: always
  type: list
  elements: str
gpus:
  description: GPUs as nvidia-smi has them, each with index, name, uuid, slot, memory and driver.
  returned: always
  type: list
  elements: dict
trouble:
  description: Why nvidia-smi could not tell; empty where it could.
  returned: always
  type: str
headers:
  description: Whether modules can be built for the running kernel as the machine is.
  returned: always
  type: bool
machine:
  description: What tells this machine from others, with C(boot), C(processes) and C(container).
  returned: always
  type: dict
"""

import os
import re

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.nvidia_driver_cards import count_switches, find_cards, settle_modules
from ansible.module_utils.training_node.machine.gpus import ask, read_gpus

# How long nvidia-smi may take, in seconds: without the persistence daemon it wakes every card.
PATIENCE = 60


def text_of(path: str) -> str:
    """What a file says; empty where there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def library_version() -> str:
    """Version of NVML, which is in the name of the file that its link leads to."""
    _, listed = ask("/sbin/ldconfig", "--print-cache", seconds=PATIENCE)
    match = re.search(r"libnvidia-ml\.so\.1 \(.*=> (\S+)", listed)
    name = os.path.realpath(match[1]) if match else ""
    return name.rpartition(".so.")[2] if re.search(r"\.so\.\d+\.\d+", name) else ""


def built_version(kernel: str, branch: int) -> str:
    """Version of the module that a kernel would load; empty where it has none.

    Debian's packages build it under names of their own, and a line of modprobe.d maps `nvidia` to
    them (`install nvidia modprobe -i nvidia-current …`), of which modinfo(8) knows nothing. The
    names are those of Debian's packages nvidia-kernel-dkms, nvidia-open-kernel-dkms and
    nvidia-tesla-535-kernel-dkms; those of a branch come before those of the release's own, of which
    an older installation may have left some.
    """
    tesla = f"nvidia-tesla-{branch}"
    for name in ("nvidia", tesla, f"{tesla}-open", "nvidia-current", "nvidia-current-open"):
        question = ("--field=version", "--set-version", kernel, name)
        status, said = ask("modinfo", *question, seconds=PATIENCE)
        if status == 0:
            version: str = said
            return version
    return ""


def look_at_gpus() -> tuple[list[dict[str, str]], str]:
    """GPUs as the driver has them, and why it could not be asked.

    One that fell off the bus, or has no handle, is none of them.
    """
    gpus, trouble = read_gpus(PATIENCE)
    return [
        {
            "index": str(gpu.index),
            "name": gpu.model,
            "uuid": gpu.uuid,
            "slot": gpu.slot,
            "memory_mebibytes": str(gpu.memory_bytes // 2**20),
            "driver": gpu.driver,
        }
        for gpu in gpus
        if not gpu.trouble
    ], trouble


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "sys": {"type": "path", "default": "/sys"},
            "branch": {"type": "int", "required": True},
            "modules": {
                "type": "str",
                "default": "auto",
                "choices": ["auto", "open", "proprietary", "site"],
            },
        },
        supports_check_mode=True,
    )
    sys, kernel = module.params["sys"], os.uname().release
    cards = find_cards(sys)
    modules, misfit = settle_modules(cards, module.params["branch"], module.params["modules"])
    loaded = text_of(os.path.join(sys, "module/nvidia/version"))
    library = library_version()
    reboot = []
    if os.path.isdir(os.path.join(sys, "module/nouveau")):
        reboot.append("the kernel drives the GPUs with nouveau")
    if loaded and library and loaded != library:
        reboot.append(f"the kernel has {loaded} loaded, and the programs are of {library}")
    gpus, trouble = look_at_gpus()
    container, _ = ask("systemd-detect-virt", "--quiet", "--container", seconds=PATIENCE)
    module.exit_json(
        changed=False,
        cards=[card.asdict() for card in cards],
        switches=count_switches(sys),
        modules=modules,
        misfit=misfit,
        loaded=loaded,
        built=built_version(kernel, module.params["branch"]),
        library=library,
        reboot=reboot,
        gpus=gpus,
        trouble=trouble,
        headers=os.path.isdir(f"/lib/modules/{kernel}/build/"),
        machine={
            "boot": text_of("/proc/sys/kernel/random/boot_id"),
            "processes": os.readlink("/proc/self/ns/pid"),
            "container": container == 0,
        },
    )


if __name__ == "__main__":
    main()
