"""NVIDIA GPUs of a machine that has none: the files of its driver, and of its CDI specification.

What nvidia-smi answers is in a file, which the stand-in of that name reads
(files/stand_in_driver/usr/bin). What the kernel shows are files, too. Nothing computes.
"""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What nvidia-smi says for each branch of the driver (docs.nvidia.com/cuda, release notes of the
# CUDA toolkit, and nvidia-smi's own head).
CUDA_OF_BRANCH = {
    525: "12.0",
    530: "12.1",
    535: "12.2",
    545: "12.3",
    550: "12.4",
    555: "12.5",
    560: "12.6",
    565: "12.7",
    570: "12.8",
    575: "12.9",
    580: "13.0",
}
# Below the machine's root: what nvidia-smi reads, and what stands in for /sys.
PLACE = "opt/stand-in-driver"
SPECIFICATION = "etc/cdi/nvidia.json"
NVIDIA, DISPLAY = 0x10DE, 0x030200
KEYS = ("profile", "count", "driver", "toolkit")


@dataclass(frozen=True)
class Model:
    """A kind of GPUs: its name, memory in MiB, compute capability, and device id on the bus."""

    name: str
    mebibytes: int
    capability: str
    device: int


# The buses on which they lie, and so how many a machine has at the most.
BUSES = (0x07, 0x0F, 0x47, 0x4E, 0x87, 0x90, 0xB7, 0xBD)
# Names, memory and capabilities as recorded output has them (tests/roles/data/gpus), those of the
# L40S, the B200 and the GTX 1080 as NVIDIA publishes them.
MODELS = {
    "a100": Model("NVIDIA A100-SXM4-40GB", 40960, "8.0", 0x20B0),
    "b200": Model("NVIDIA B200", 196608, "10.0", 0x2901),
    "gtx1080": Model("NVIDIA GeForce GTX 1080", 8192, "6.1", 0x1B80),
    "h100": Model("NVIDIA H100 80GB HBM3", 81920, "9.0", 0x2330),
    "l40s": Model("NVIDIA L40S", 49152, "8.9", 0x26B9),
    "t4": Model("NVIDIA T4", 16384, "7.5", 0x1EB8),
}


class GpuMachineError(Exception):
    """A machine with such GPUs cannot be made; says why."""


@dataclass(frozen=True)
class GpuMachine:
    """The GPUs that a machine shows.

    Attributes:
        profile: their kind, one of MODELS.
        count: how many; at most as many as there are BUSES.
        driver: release of the driver: `550.163.01`.
        toolkit: whether its containers can have them: with a CDI specification, which the engine
            reads.
    """

    profile: str
    count: int
    driver: str
    toolkit: bool = False

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> "GpuMachine":
        """Read an entry of an inventory.

        Raises:
            GpuMachineError: a key is missing or unknown, or a value is none that there is.
        """
        if not set(KEYS[:3]) <= set(entry) <= set(KEYS):
            raise GpuMachineError(
                f"a machine with GPUs has {', '.join(KEYS[:3])}, and may have {KEYS[3]}; "
                f"this one has {', '.join(entry) or 'nothing'}"
            )
        machine = cls(
            str(entry["profile"]),
            int(entry["count"]),
            str(entry["driver"]),
            bool(entry.get("toolkit", False)),
        )
        if machine.profile not in MODELS:
            raise GpuMachineError(
                f"no GPU profile {machine.profile!r}; there are {', '.join(MODELS)}"
            )
        if not 1 <= machine.count <= len(BUSES):
            raise GpuMachineError(f"a machine has 1 to {len(BUSES)} GPUs, not {machine.count}")
        if machine.branch not in CUDA_OF_BRANCH:
            branches = ", ".join(map(str, CUDA_OF_BRANCH))
            raise GpuMachineError(f"driver {machine.driver} is of none of the branches {branches}")
        return machine

    @property
    def branch(self) -> int:
        """Branch of the driver; 0 where its release has no such form."""
        match = re.fullmatch(r"(\d{3})\.\d+(\.\d+)?", self.driver)
        return int(match[1]) if match else 0

    @property
    def model(self) -> Model:
        """What the GPUs are."""
        return MODELS[self.profile]

    @property
    def uuids(self) -> list[str]:
        """The identity of each GPU."""
        numbers = range(self.count)
        return [f"GPU-{self.model.device:08x}-0000-0000-0000-{index:012x}" for index in numbers]

    def answers(self) -> dict[str, str]:
        """What nvidia-smi says, in the form of tests/roles/data/gpus."""
        model = self.model
        told = f"{self.driver}, {model.mebibytes}, 33, 0, {model.capability}, Disabled\n"
        lines = [
            f"{index}, {uuid}, {model.name}, 00000000:{BUSES[index]:02X}:00.0, {told}"
            for index, uuid in enumerate(self.uuids)
        ]
        head = f"Driver Version: {self.driver}  CUDA Version: {CUDA_OF_BRANCH[self.branch]}"
        return {
            "gpus": "".join(lines),
            "users": "",
            "table": f"| NVIDIA-SMI stand-in  {head} |\n",
        }

    def specification(self) -> dict[str, Any]:
        """What containers get (CDI 0.5.0), as `nvidia-ctk cdi generate` has it, without hooks.

        Devices are named by number, as the toolkit does it when it is asked nothing else, and all
        of them together. The driver's programs and libraries are those of the stand-in.
        """
        files = [[{"path": f"/dev/nvidia{index}"}] for index in range(self.count)]
        devices = [(str(index), nodes) for index, nodes in enumerate(files)]
        devices.append(("all", [node for nodes in files for node in nodes]))
        mounted = ("/usr/bin/nvidia-smi", f"/{PLACE}", f"/{PLACE}/lib/libcuda.so.{self.driver}")
        return {
            "cdiVersion": "0.5.0",
            "kind": "nvidia.com/gpu",
            "devices": [
                {"name": name, "containerEdits": {"deviceNodes": nodes}} for name, nodes in devices
            ],
            "containerEdits": {
                "env": ["NVIDIA_VISIBLE_DEVICES=void"],
                "deviceNodes": [{"path": "/dev/nvidiactl"}, {"path": "/dev/nvidia-uvm"}],
                "mounts": [
                    {
                        "hostPath": path,
                        "containerPath": path,
                        "options": ["ro", "nosuid", "nodev", "bind"],
                    }
                    for path in mounted
                ],
            },
        }


def write_driver(root: Path, machine: GpuMachine, files: Path) -> None:
    """Write the files of a machine with these GPUs and this driver.

    Args:
        root: what becomes the machine's root; what was there of an earlier driver is removed.
        machine: its GPUs.
        files: what every such machine has besides: files/stand_in_driver.
    """
    if root.exists():
        shutil.rmtree(root)
    shutil.copytree(files, root)
    place = root / PLACE
    (place / "machine.json").write_text(json.dumps(machine.answers(), indent=2))
    specification = json.dumps(machine.specification(), indent=2)
    (place / "specification.json").write_text(specification)
    # Programs that look for the driver look for this file. It has nothing in it that computes.
    library = place / f"lib/libcuda.so.{machine.driver}"
    library.parent.mkdir(parents=True, exist_ok=True)
    library.touch()
    if machine.toolkit:
        for path, text in (
            (SPECIFICATION, specification),
            ("etc/docker/daemon.json", '{"features": {"cdi": true}}'),
        ):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
    _write_kernel(place, machine)


def _write_kernel(place: Path, machine: GpuMachine) -> None:
    """Write what the kernel shows: `sys`."""
    loaded = place / "sys/module/nvidia"
    loaded.mkdir(parents=True)
    (loaded / "version").write_text(f"{machine.driver}\n")
    for bus in BUSES[: machine.count]:
        card = place / f"sys/bus/pci/devices/0000:{bus:02x}:00.0"
        card.mkdir(parents=True)
        for name, value in (("vendor", NVIDIA), ("device", machine.model.device)):
            (card / name).write_text(f"0x{value:04x}\n")
        (card / "class").write_text(f"0x{DISPLAY:06x}\n")
