#!/usr/bin/python
"""Ansible module: writes a folder of files for each machine with a stand-in for NVIDIA's driver.

The folders are copied to the machines' roots. `machines` has `profile`, `count`, `driver` and
`toolkit` of each, `files` what all of them have besides, nvidia-smi among it.
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
