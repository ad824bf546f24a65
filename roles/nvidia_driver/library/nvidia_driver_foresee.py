#!/usr/bin/python
"""Ansible module: the driver that is loaded, and the compute capabilities of a machine's GPUs.

What the driver tells counts. Of GPUs that it does not tell about, or where none is loaded, the
capability is that of their device id on the PCI bus, and empty where that is not known.
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.nvidia_driver_cards import capability_of, find_cards
from ansible.module_utils.training_node.machine.gpus import Gpu, loaded_release, read_gpus


def merge(answered: list[Gpu], sys: str) -> list[dict[str, str]]:
    """The GPUs that the driver told about, and those on the bus that it did not."""
    # A slot is 00000000:3B:00.0 to the driver, and 0000:3b:00.0 to the kernel.
    by_slot = {gpu.slot.lower()[-12:]: gpu for gpu in answered}
    devices = {card.slot: card.device for card in find_cards(sys)}
    gpus = []
    for slot in sorted({*by_slot, *devices}):
        gpu = by_slot.get(slot)
        device = devices.get(slot, "")
        capability = gpu.capability if gpu is not None else ""
        if not capability and device:
            capability = capability_of(int(device, 16))
        # One that has no handle tells no model either.
        name = gpu.model if gpu is not None and gpu.model else f"device {device}"
        gpus.append({"label": f"{name} in slot {slot}", "capability": capability})
    return gpus


def main() -> None:
    module = AnsibleModule(
        argument_spec={"sys": {"type": "path", "default": "/sys"}}, supports_check_mode=True
    )
    answered, _ = read_gpus()
    loaded = next((gpu.driver for gpu in answered if gpu.driver), "")
    sys = module.params["sys"]
    loaded = loaded or loaded_release(sys)
    module.exit_json(changed=False, loaded=loaded, gpus=merge(answered, sys))


if __name__ == "__main__":
    main()
