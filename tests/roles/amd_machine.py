"""A stand-in for a machine with two Instinct MI210: a tree of files in place of /sys and /dev.

What the kernel lists of the two GPUs that compute (KFD's topology) are values of a real machine,
from `testdata/topo-mi210-xgmi-pcie` of github.com/ROCm/k8s-device-plugin. Nothing computes.
Debian's real rocm-smi 6.1.2-1 reads such a tree in place of /sys
(`docker run --volume TREE:/sys:ro`); its answers are in `data/amd`, see docs/gpus.md.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

RECORDED = Path(__file__).parent / "data/amd"
MI210 = "Aldebaran/MI200 [Instinct MI210]"
# Of the two: KFD's node and number, the bus, the minor in /dev/dri, and the card's own number.
GPUS = ((2, 57145, 0x63, 128, 0x1901EAD3A2ECD4A6), (3, 26670, 0x43, 129, 0x51276AC12CE05DB3))
UUIDS = ["GPU-51276ac12ce05db3", "GPU-1901ead3a2ecd4a6"]
PROPERTIES = """\
cpu_cores_count 0
simd_count 416
mem_banks_count 1
gfx_target_version 90010
vendor_id 4098
device_id 29711
location_id {location}
domain 0
drm_render_minor {minor}
unique_id {identity}
"""


def write(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


@dataclass
class AmdMachine:
    """The files of the machine.

    Attributes:
        root: folder of them.
    """

    root: Path
    sys: Path = field(init=False)

    def __post_init__(self) -> None:
        self.sys = self.root / "sys"
        write(self.sys / "module/amdgpu/version", "6.10.5")
        write(self.sys / "module/amdgpu/initstate", "live")
        self.node(0, 0, "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\n")
        for node, number, bus, minor, identity in GPUS:
            values = {"location": bus << 8, "minor": minor, "identity": identity}
            self.node(node, number, PROPERTIES.format(**values))
            write(self.topology / f"{node}/mem_banks/0/properties", "size_in_bytes 68702699520")
            self.card(bus)
        write(self.kfd, "")
        self.say("mi210")

    @property
    def topology(self) -> Path:
        return self.sys / "class/kfd/kfd/topology/nodes"

    @property
    def kfd(self) -> Path:
        return self.root / "dev/kfd"

    def say(self, answer: str) -> None:
        """Put a stand-in for rocm-smi there, which says what the real one said: of RECORDED."""
        program = self.root / "bin/rocm-smi"
        answer_file = RECORDED / f"{answer}.json"
        write(program, f"#!/bin/sh\necho asked >> {self.root}/asked\ncat {answer_file}")
        program.chmod(0o755)

    def node(self, node: int, number: int, properties: str) -> None:
        write(self.topology / f"{node}/gpu_id", number)
        (self.topology / f"{node}/properties").write_text(properties)

    def device(self, bus: int) -> Path:
        return self.sys / f"bus/pci/devices/0000:{bus:02x}:00.0"

    def card(self, bus: int) -> None:
        told = {
            "vendor": "0x1002",
            "device": "0x740f",
            "class": "0x120000",
            "gpu_busy_percent": 0,
            "mem_info_vram_total": 68702699520,
            "mem_info_vram_used": 11743232,
            "ras/umc_err_count": "ue: 0\nce: 0",
            "ras/gfx_err_count": "ue: 0\nce: 0",
        }
        for name, text in told.items():
            write(self.device(bus) / name, text)

    def process(self, pid: int, number: int, memory: int) -> None:
        """Have a process hold memory of a GPU, and none of the other."""
        for _, other, *_ in GPUS:
            place = self.sys / f"class/kfd/kfd/proc/{pid}/vram_{other}"
            write(place, memory if other == number else 0)

    def unload(self) -> None:
        """Take the driver out; the cards stay on the bus."""
        for path in sorted((self.sys / "module/amdgpu").iterdir()):
            path.unlink()
        (self.sys / "module/amdgpu").rmdir()
        self.kfd.unlink()


def recorded(name: str) -> dict[str, dict[str, str]]:
    """An answer of rocm-smi."""
    answer: dict[str, dict[str, str]] = json.loads((RECORDED / f"{name}.json").read_text())
    return answer
