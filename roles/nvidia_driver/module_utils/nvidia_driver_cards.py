"""NVIDIA's GPUs on the PCI bus, and which driver fits them."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

NVIDIA = 0x10DE
# VGA and 3D controllers, the upper two bytes of the class (PCI Code and ID Assignment, base 03h).
DISPLAY_CLASSES = frozenset({0x0300, 0x0302})
# A bridge of no other kind, as which NVSwitches show (PCI Code and ID Assignment, base 06h).
BRIDGE_CLASS = 0x0680
# From this branch on NVIDIA recommends the open modules where the card takes both
# (R560 release notes; docs.nvidia.com/datacenter/tesla/driver-installation-guide).
OPEN_FROM = 560


@dataclass(frozen=True)
class Generation:
    """Cards whose device ids follow each other.

    Attributes:
        first: the lowest device id; the next generation's is where this one ends.
        name: NVIDIA's names.
        oldest, newest: branches of the driver that know them.
        modules: kinds of kernel modules that drive them.
    """

    first: int
    name: str
    oldest: int
    newest: int
    modules: tuple[str, ...]


# Bounds are those of Debian's lists of ids (package nvidia-detect 550.163.01) and, for Blackwell,
# of NVIDIA's list of supported cards; the last branch of Maxwell to Volta is 580. An id inside the
# span of Turing to Hopper may be a card that came later than 535: its module says so when loaded.
GENERATIONS = (
    Generation(0x0000, "Kepler or older", 0, 470, ("proprietary",)),
    Generation(0x1340, "Maxwell to Volta", 0, 580, ("proprietary",)),
    Generation(0x1E00, "Turing to Hopper", 0, 9999, ("open", "proprietary")),
    Generation(0x2900, "Blackwell or newer", 570, 9999, ("open",)),
)

# Compute capabilities by device id: each begins where it stands and ends at the next; empty where
# none is known. Which chip an id is of is from the PCI ID database (Debian 13's package pci.ids);
# the capability of a chip is from NVIDIA's list of GPUs (developer.nvidia.com/cuda-gpus).
CAPABILITIES = (
    (0x0000, ""),  # Kepler and older: no driver that is known here
    (0x1340, "5.0"),  # GM107, GM108
    (0x13C0, "5.2"),  # GM20x
    (0x15F0, "6.0"),  # GP100
    (0x1740, "5.0"),  # GM107, GM108
    (0x17C0, "5.2"),  # GM200
    (0x1B00, "6.1"),  # GP10x
    (0x1D80, "7.0"),  # GV100
    (0x1E00, "7.5"),  # TU10x, TU117
    (0x2080, "8.0"),  # GA100
    (0x2180, "7.5"),  # TU116
    (0x2200, "8.6"),  # GA102
    (0x2300, "9.0"),  # GH100
    (0x2400, "8.6"),  # GA103 to GA107
    (0x2600, "8.9"),  # AD10x
    (0x2900, "10.0"),  # GB100, GB102
    (0x2A00, ""),
    (0x2B80, "12.0"),  # GB202 to GB207
    (0x2E00, "12.1"),  # GB20B
    (0x2F00, "12.0"),  # GB205
    (0x3000, ""),
    (0x3180, "10.3"),  # GB110
    (0x3200, ""),
)


@dataclass(frozen=True)
class Card:
    """A GPU on the bus: its place, its device id, its generation."""

    slot: str
    device: str
    generation: str

    def asdict(self) -> dict[str, Any]:
        """As it travels."""
        return asdict(self)


def find_cards(sys: str) -> list[Card]:
    """List the GPUs below `sys`, which is /sys on a real machine."""
    return [
        Card(slot, f"{device:04x}", generation_of(device).name)
        for slot, kind, device in _devices(sys)
        if kind in DISPLAY_CLASSES
    ]


def count_switches(sys: str) -> int:
    """Number of NVSwitches below `sys`, which join the GPUs of an HGX or DGX machine.

    Up to Hopper they are on the bus of the machine (NVIDIA's Fabric Manager User Guide). Without
    nvidia-fabricmanager CUDA does not start on the GPUs behind them, and nvidia-smi shows nothing.
    """
    return sum(kind == BRIDGE_CLASS for _, kind, _ in _devices(sys))


def _devices(sys: str) -> list[tuple[str, int, int]]:
    """NVIDIA's devices on the bus: slot, upper two bytes of the class, device id."""
    listing = os.path.join(sys, "bus/pci/devices")
    if not os.path.isdir(listing):
        return []  # a machine without a PCI bus
    devices = []
    for slot in sorted(os.listdir(listing)):
        vendor, kind, device = (
            _number(os.path.join(listing, slot, name)) for name in ("vendor", "class", "device")
        )
        if vendor == NVIDIA:
            devices.append((slot, kind >> 8, device))
    return devices


def generation_of(device: int) -> Generation:
    """The generation of a device id."""
    return [generation for generation in GENERATIONS if generation.first <= device][-1]


def capability_of(device: int) -> str:
    """The compute capability of a device id; empty where it is not known."""
    return [capability for first, capability in CAPABILITIES if first <= device][-1]


def settle_modules(cards: Sequence[Card], branch: int, requested: str) -> tuple[str, str]:
    """Choose the kind of kernel modules.

    Args:
        cards: all of the machine, which share one module.
        branch: of the driver.
        requested: `auto`, `open`, `proprietary`, or `site` for modules that others see to.

    Returns:
        The kind, and why no driver of this branch and kind fits (empty where one does).
    """
    if requested == "site":
        return requested, ""
    kinds = {"open", "proprietary"}
    for card in cards:
        generation = generation_of(int(card.device, 16))
        whose = f"the GPU in slot {card.slot} (device {card.device}, {generation.name})"
        if branch < generation.oldest:
            return requested, f"{whose} needs branch {generation.oldest} or newer, not {branch}"
        if branch > generation.newest:
            return requested, f"{whose} is known to branch {generation.newest} at the latest"
        kinds &= set(generation.modules)
    if not kinds:
        return requested, "no kind of kernel modules drives all GPUs of this machine"
    if requested != "auto":
        trouble = f"the GPUs here need the {'/'.join(kinds)} modules, not the {requested} ones"
        return requested, "" if requested in kinds else trouble
    preferred = "open" if branch >= OPEN_FROM else "proprietary"
    return preferred if preferred in kinds else kinds.pop(), ""


def _number(path: str) -> int:
    """The number in a file of the listing, which is written as 0x10de."""
    with open(path, encoding="ascii") as file:
        return int(file.read(), 16)
