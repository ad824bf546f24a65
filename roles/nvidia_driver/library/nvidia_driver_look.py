#!/usr/bin/python
"""Ansible module: the NVIDIA GPUs of a machine, and what drives them. Changes nothing.

Lists the GPUs on the PCI bus (`cards`), chooses the kind of kernel modules that fits them, and
compares the module that is `loaded`, the one `built` for the running kernel and the installed
`library`, which perhaps no package brought (`unpackaged`). `misfit` says why no driver of this
branch and kind fits, `reboot` why the machine must be rebooted before the driver works, `trouble`
why nvidia-smi could not tell; each is empty where all is well.
"""

import os
import re

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.nvidia_driver_cards import count_switches, find_cards, settle_modules
from ansible.module_utils.training_node.machine.gpus import ask, loaded_release, read_gpus
from ansible.module_utils.training_node.machine.hardware import read_text

# How long nvidia-smi may take, in seconds: without the persistence daemon it wakes every card.
PATIENCE = 60


def library() -> tuple[str, bool]:
    """Version of NVML, which is in the name of the file that its link leads to; "" without that.

    And whether no package brought it.
    """
    _, listed = ask("/sbin/ldconfig", "--print-cache", seconds=PATIENCE)
    match = re.search(r"libnvidia-ml\.so\.1 \(.*=> (\S+)", listed)
    name = os.path.realpath(match[1]) if match else ""
    # The cache and the link outlive the file.
    if not (re.search(r"\.so\.\d+\.\d+", name) and os.path.exists(name)):
        return "", False
    owned, _ = ask("dpkg-query", "--search", name, seconds=PATIENCE)
    return name.rpartition(".so.")[2], owned != 0


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
    loaded = loaded_release(sys)
    programs, unpackaged = library()
    reboot = []
    if os.path.isdir(os.path.join(sys, "module/nouveau")):
        reboot.append("the kernel drives the GPUs with nouveau")
    if loaded and programs and loaded != programs:
        reboot.append(f"the kernel has {loaded} loaded, and the programs are of {programs}")
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
        library=programs,
        unpackaged=unpackaged,
        reboot=reboot,
        gpus=gpus,
        trouble=trouble,
        headers=os.path.isdir(f"/lib/modules/{kernel}/build/"),
        machine={
            "boot": read_text("/proc/sys/kernel/random/boot_id"),
            "processes": os.readlink("/proc/self/ns/pid"),
            "container": container == 0,
        },
    )


if __name__ == "__main__":
    main()
