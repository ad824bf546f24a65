"""The AMD GPUs of this machine, as rocm-smi and the kernel's files tell of them.

rocm-smi is asked for what has to be read from the card, within a time limit: where the driver is
there and no card is, release 6.1.2 never ends. What does not change comes from the kernel's own
list of GPUs that compute (KFD), and who computes on them too. rocm-smi ends with 0 whatever goes
wrong, and leaves out what it cannot read.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
from dataclasses import dataclass
from typing import Any

from .gpus import AMD, NO_PROGRAM, Gpu, GpuUser, ask
from .hardware import cards_on_bus, read_text

# Of Debian's package, and where AMD's own packages put it.
SMI, SMI_OF_AMD = "rocm-smi", "/opt/rocm/bin/rocm-smi"
ASKED = (
    "--showproductname",
    "--showbus",
    "--showuniqueid",
    "--showmeminfo",
    "vram",
    "--showtemp",
    "--showuse",
    "--json",
)
# What programs open to compute: one file for all GPUs, and one for each.
KFD = "/dev/kfd"
RENDER = "/dev/dri/renderD"
# Vendor in /sys, and classes of its GPUs: VGA, 3D and other displays, and processing accelerators,
# which Instinct MI200 and later are.
VENDOR, CLASSES = "0x1002", ("0x0300", "0x0302", "0x0380", "0x1200")
# The names of one value in the releases 5.2 to 6.1.
MODELS = ("Card Series", "Card series", "Device Name")
# Instinct MI300 has no sensor at the edge.
SENSORS = tuple(f"Temperature (Sensor {place}) (C)" for place in ("edge", "junction", "memory"))
LOAD = "GPU use (%)"
UNREADABLE = f"{SMI} can read neither its load nor its temperature"


@dataclass(frozen=True)
class KfdNode:
    """A GPU that computes, as the kernel lists it.

    Attributes:
        number: the kernel's for it, by which it lists who computes there.
        slot: its place on the bus: `0000:63:00.0`.
        target: what programs are compiled for: `gfx90a`.
        identity: the card's own number; 0 where it has none.
        minor: of its file in /dev/dri.
        memory_bytes: its memory; 0 where it has none of its own.
    """

    number: int
    slot: str
    target: str
    identity: int
    minor: int
    memory_bytes: int

    @property
    def uuid(self) -> str:
        """As ROCm calls it; of a card without a number of its own, by its place on the bus."""
        return f"GPU-{self.identity:016x}" if self.identity else f"PCI-{self.slot}"


def target_of(version: int) -> str:
    """The name of a target from the kernel's number: 90010 is gfx90a, 100300 gfx1030."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def kfd_nodes(sys: str) -> list[KfdNode]:
    """The GPUs that the kernel lists, in its order; its processors are in the same list."""
    found = []
    for folder in glob.glob(f"{glob.escape(sys)}/class/kfd/kfd/topology/nodes/*"):
        values = _properties(os.path.join(folder, "properties"))
        number = read_text(os.path.join(folder, "gpu_id"))
        if not values.get("gfx_target_version") or not number.isdecimal():
            continue
        place, banks = values["location_id"], glob.glob(f"{glob.escape(folder)}/mem_banks/*")
        memory = [_properties(os.path.join(bank, "properties")) for bank in banks]
        # location_id: eight bits of the bus, five of the device, three of the function.
        slot = f"{values.get('domain', 0):04x}:{place >> 8:02x}:{place >> 3 & 31:02x}.{place & 7}"
        node = KfdNode(
            number=int(number),
            slot=slot,
            target=target_of(values["gfx_target_version"]),
            identity=values.get("unique_id", 0),
            minor=values["drm_render_minor"],
            memory_bytes=sum(bank.get("size_in_bytes", 0) for bank in memory),
        )
        found.append((int(os.path.basename(folder)), node))
    return [node for _, node in sorted(found, key=lambda entry: entry[0])]


def read_amd_gpus(sys: str = "/sys") -> tuple[list[Gpu], str]:
    """Ask for all AMD GPUs of this machine that compute.

    Returns:
        The GPUs by rocm-smi's number, and why they could not be asked (empty where they could).
    """
    trouble = driver_trouble(sys)
    if trouble:
        return [], trouble
    nodes = kfd_nodes(sys)
    if not nodes:
        return [], "amdgpu drives no card that computes"
    program = shutil.which(SMI) or SMI_OF_AMD
    status, said = ask(program, *ASKED)
    if status == NO_PROGRAM:
        return [], f"there is no {SMI}"
    if status != 0 or not said:
        return [], said or f"{SMI} says nothing"
    try:
        cards = json.loads(said)
    except ValueError:
        return [], f"{SMI} says {said.splitlines()[0]}"
    return parse_cards(cards, nodes, sys), ""


def driver_trouble(sys: str) -> str:
    """Why no driver answers; empty where one does."""
    if not os.path.isdir(os.path.join(sys, "module/amdgpu")):
        return "amdgpu is not loaded"
    return "" if os.path.exists(KFD) else f"amdgpu is loaded, and there is no {KFD}"


def parse_cards(cards: dict[str, Any], nodes: list[KfdNode], sys: str) -> list[Gpu]:
    """Put together what rocm-smi and the kernel say; a card for displays alone is left out.

    Args:
        cards: rocm-smi's answer, by `card0` and so on.
    """
    by_slot, driver = {node.slot: node for node in nodes}, driver_release(sys)
    gpus = []
    for name, card in cards.items():
        number = re.fullmatch(r"card(\d+)", name)
        node = by_slot.get(str(card.get("PCI Bus", "")).lower())
        if number and node:
            gpus.append(_gpu(int(number[1]), card, node, driver, sys))
    return sorted(gpus, key=lambda gpu: gpu.index)


def driver_release(sys: str) -> str:
    """Release of the driver; that of Debian's kernel has none but the kernel's."""
    own = read_text(os.path.join(sys, "module/amdgpu/version"))
    return own or os.uname().release


def read_amd_users(sys: str) -> list[GpuUser]:
    """Who has memory of a GPU, as the kernel lists it."""
    uuid_of = {node.number: node.uuid for node in kfd_nodes(sys)}
    users = []
    for path in sorted(glob.glob(f"{glob.escape(sys)}/class/kfd/kfd/proc/*/vram_*")):
        number, pid = int(path.rpartition("_")[2]), int(path.split("/")[-2])
        if number in uuid_of and read_text(path) not in ("", "0"):
            users.append(GpuUser(uuid_of[number], pid, _program(pid)))
    return users


def count_amd_cards(sys: str) -> int:
    """Number of AMD's GPUs on the bus, with a driver or without."""
    count: int = cards_on_bus(sys, VENDOR, CLASSES)
    return count


def sample_amd_gpus(sys: str = "/sys") -> list[dict[str, Any]]:
    """Return index, name, utilisation_percent, memory_used_bytes and memory_bytes of each.

    Of the kernel's files alone: it is asked every few seconds. The order is rocm-smi's, by the
    place on the bus. None stands for what a GPU does not tell.
    """
    samples = []
    for index, node in enumerate(sorted(kfd_nodes(sys), key=lambda node: node.slot)):
        device = os.path.join(sys, "bus/pci/devices", node.slot)
        samples.append(
            {
                "index": index,
                "name": read_text(os.path.join(device, "product_name")) or f"AMD GPU {node.target}",
                "utilisation_percent": _number(read_text(os.path.join(device, "gpu_busy_percent"))),
                "memory_used_bytes": _number(read_text(os.path.join(device, "mem_info_vram_used"))),
                "memory_bytes": _number(read_text(os.path.join(device, "mem_info_vram_total"))),
            }
        )
    return samples


def _gpu(index: int, card: dict[str, Any], node: KfdNode, driver: str, sys: str) -> Gpu:
    told = [_number(card.get(sensor)) for sensor in SENSORS]
    celsius = next((value for value in told if value is not None), None)
    trouble = UNREADABLE if celsius is None and _number(card.get(LOAD)) is None else ""
    names = [str(card[name]) for name in MODELS if name in card]
    model = next((name for name in names if not name.startswith(("N/A", "0x"))), "")
    device = os.path.join(sys, "bus/pci/devices", node.slot)
    return Gpu(
        index=index,
        uuid=node.uuid,
        model=model or f"AMD GPU {card.get('Card Model') or node.target}",
        slot=node.slot,
        driver=driver,
        memory_bytes=_number(card.get("VRAM Total Memory (B)")) or node.memory_bytes,
        celsius=celsius,
        uncorrected_errors=0 if trouble else _uncorrected(device),
        capability=node.target,
        trouble=trouble,
        vendor=AMD,
        device=f"{RENDER}{node.minor}",
    )


def _uncorrected(device: str) -> int:
    """Uncorrected errors of all blocks of a card that counts them: `ue: 0`, `ce: 0`."""
    texts = [read_text(path) for path in glob.glob(f"{glob.escape(device)}/ras/*_err_count")]
    return sum(int(count) for text in texts for count in re.findall(r"^ue: *(\d+)", text, re.M))


def _number(text: Any) -> int | None:
    """A number of rocm-smi's, which writes 34.0 for whole degrees; None for `N/A` and nothing."""
    return int(float(text)) if re.fullmatch(r"\d+(\.\d+)?", str(text)) else None


def _properties(path: str) -> dict[str, int]:
    """A file of the kernel's with a name and a number a line."""
    pairs = (line.split() for line in read_text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _program(pid: int) -> str:
    return read_text(f"/proc/{pid}/comm") or "a process of another container"
