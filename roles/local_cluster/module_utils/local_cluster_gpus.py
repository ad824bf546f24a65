# Copyright Trainyard. Apache-2.0
"""NVIDIA GPUs of a machine that has none: a mock of the driver under NVIDIA's real programs.

The mock of the management library is NVIDIA's own (github.com/NVIDIA/k8s-test-infra,
pkg/gpu/mocknvml). It reads how many GPUs of which kind there are from `config.yaml`, which it finds
two folders above its own. What the kernel's part of the driver shows are files that this module
writes. Nothing computes.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from ansible.module_utils.local_cluster_gpu_tools import HOOK, NVML, GpuToolsError

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
LIBRARIES = "usr/lib/x86_64-linux-gnu"
# Beside the library, as the mock looks for it; changes of a living machine stand beside it.
CONFIGURATION = "usr/config/config.yaml"
OVERRIDES = "usr/config/overrides.yaml"
# What stands in for /sys and /proc, which a machine cannot write to.
KERNEL = "opt/mock-driver"
NVML_NAME, CUDA_NAME = b"libnvidia-ml.so.1\0", b"libcuda.so.1\0"
NVIDIA, DISPLAY = 0x10DE, 0x030200
KEYS = ("profile", "count", "driver", "toolkit")
PROGRAMS = ("nvidia-ctk", "nvidia-container-runtime", "nvidia-cdi-hook", HOOK)
# The runtime takes the specification that was made when the machine started, and does not make one
# of its own: only there is the mock's configuration.
RUNTIME = """[nvidia-container-runtime]
mode = "cdi"
runtimes = ["runc"]

[nvidia-container-runtime.modes.cdi]
default-kind = "nvidia.com/gpu"
"""


@dataclass(frozen=True)
class GpuMachine:
    """The GPUs that a machine shows.

    Attributes:
        profile: their kind, a file of the tools: `a100`, `t4`.
        count: how many; at most as many as the profile has.
        driver: release of the driver: `550.163.01`.
        toolkit: whether NVIDIA's container toolkit is there, and its runtime known to the engine.
    """

    profile: str
    count: int
    driver: str
    toolkit: bool = False

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> GpuMachine:
        """Read an entry of an inventory.

        Raises:
            GpuToolsError: a key is missing or unknown, or the driver's branch is.
        """
        if not set(KEYS[:3]) <= set(entry) <= set(KEYS):
            raise GpuToolsError(
                f"a machine with GPUs has {', '.join(KEYS[:3])}, and may have {KEYS[3]}; "
                f"this one has {', '.join(entry) or 'nothing'}"
            )
        machine = cls(
            str(entry["profile"]),
            int(entry["count"]),
            str(entry["driver"]),
            bool(entry.get("toolkit", False)),
        )
        if machine.branch not in CUDA_OF_BRANCH:
            branches = ", ".join(map(str, CUDA_OF_BRANCH))
            raise GpuToolsError(f"driver {machine.driver} is of none of the branches {branches}")
        return machine

    @property
    def branch(self) -> int:
        """Branch of the driver; 0 where its release has no such form."""
        match = re.fullmatch(r"(\d{3})\.\d+(\.\d+)?", self.driver)
        return int(match[1]) if match else 0


def configure(tools: Path, machine: GpuMachine) -> dict[str, Any]:
    """Return the mock's configuration of a machine.

    Raises:
        GpuToolsError: the profile is unknown, or has fewer GPUs.
    """
    path = tools / f"configs/mock-nvml-config-{machine.profile}.yaml"
    if not path.exists():
        found = sorted(name.stem.rpartition("-")[2] for name in tools.glob("configs/*.yaml"))
        raise GpuToolsError(f"no GPU profile {machine.profile!r}; there are {', '.join(found)}")
    configuration: dict[str, Any] = yaml.safe_load(path.read_text())
    devices = configuration["devices"]
    if not 1 <= machine.count <= len(devices):
        raise GpuToolsError(f"profile {machine.profile} has 1 to {len(devices)} GPUs")
    cuda = CUDA_OF_BRANCH[machine.branch]
    major, minor = cuda.split(".")
    system = {
        "driver_version": machine.driver,
        "nvml_version": f"{major}.{machine.driver}",
        "cuda_version": cuda,
        "cuda_version_major": int(major),
        "cuda_version_minor": int(minor),
    }
    kept = devices[: machine.count]
    there = {device["pci"]["bus_id"] for device in kept}
    for root in configuration.get("pcie_topology", {}).get("root_complexes", []):
        root["devices"] = [slot for slot in root["devices"] if slot in there]
    return {**configuration, "system": system, "devices": kept}


def write_driver(
    root: Path, tools: Path, smi: Path, machine: GpuMachine, hook: Path | None = None
) -> None:
    """Write the files of a machine with these GPUs and this driver.

    Args:
        root: what becomes the machine's root; what was there of an earlier driver is removed.
        tools: folder of NVIDIA's tools.
        smi: the program nvidia-smi.
        machine: its GPUs.
        hook: the toolkit's hook; a machine with a toolkit needs it.

    Raises:
        GpuToolsError: the tools do not have them.
    """
    configuration = configure(tools, machine)
    if root.exists():
        shutil.rmtree(root)
    libraries, programs = root / LIBRARIES, root / "usr/bin"
    for folder in (libraries, programs, (root / CONFIGURATION).parent):
        folder.mkdir(parents=True)
    # JSON, because what YAML writes without quotes is a number to some and a text to others.
    (root / CONFIGURATION).write_text(json.dumps(configuration))
    library = next(tools.glob(f"lib/{NVML}.*")).read_bytes()
    (libraries / f"{NVML}.{machine.driver}").write_bytes(library)
    (libraries / f"{NVML}.1").symlink_to(f"{NVML}.{machine.driver}")
    # Programs that look for the driver look for this one. It has nothing in it that computes.
    renamed = library.replace(NVML_NAME, CUDA_NAME.ljust(len(NVML_NAME), b"\0"))
    (libraries / f"libcuda.so.{machine.driver}").write_bytes(renamed)
    (libraries / "libcuda.so.1").symlink_to(f"libcuda.so.{machine.driver}")
    shutil.copy(smi, programs / "nvidia-smi")
    (programs / "nvidia-smi").chmod(0o755)
    # Also without the toolkit: the files for its role's tests, and for what starts with the machine
    shipped = root / KERNEL / "bin"
    shipped.mkdir(parents=True)
    programs_of_toolkit = [tools / "bin" / name for name in PROGRAMS if name != HOOK]
    for name, program in zip(PROGRAMS, [*programs_of_toolkit, hook], strict=True):
        if program and program.exists():
            shutil.copy(program, shipped / name)
            (shipped / name).chmod(0o755)
    if machine.toolkit:
        _write_toolkit(root, shipped)
    _write_kernel(root / KERNEL, configuration, machine)


def _write_toolkit(root: Path, shipped: Path) -> None:
    """Put NVIDIA's container toolkit where its package puts it, and make it known to the engine.

    Raises:
        GpuToolsError: a program is not among the tools.
    """
    missing = [name for name in PROGRAMS if not (shipped / name).exists()]
    if missing:
        raise GpuToolsError(f"NVIDIA's tools lack bin/{', bin/'.join(missing)}")
    for name in PROGRAMS:
        shutil.copy(shipped / name, root / "usr/bin" / name)
    runtime = root / "etc/nvidia-container-runtime/config.toml"
    runtime.parent.mkdir(parents=True)
    runtime.write_text(RUNTIME)
    settings = {"runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}}}
    engine = root / "etc/docker/daemon.json"
    engine.parent.mkdir(parents=True)
    engine.write_text(json.dumps(settings))


def _write_kernel(root: Path, configuration: Mapping[str, Any], machine: GpuMachine) -> None:
    """Write what the kernel and its module show: `sys` and `proc`."""
    loaded = root / "sys/module/nvidia"
    loaded.mkdir(parents=True)
    (loaded / "version").write_text(f"{machine.driver}\n")
    number = int(configuration["device_defaults"]["pci"]["device_id"]) >> 16
    driver = root / "proc/driver/nvidia"
    driver.mkdir(parents=True)
    (driver / "version").write_text(
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {machine.driver}  mock of Trainyard\n"
    )
    for device in configuration["devices"]:
        slot = device["pci"]["bus_id"].lower()
        card = root / "sys/bus/pci/devices" / slot
        card.mkdir(parents=True)
        for name, value in (("vendor", NVIDIA), ("device", number)):
            (card / name).write_text(f"0x{value:04x}\n")
        (card / "class").write_text(f"0x{DISPLAY:06x}\n")
        about = driver / "gpus" / slot
        about.mkdir(parents=True)
        (about / "information").write_text(
            f"Model: \t\t {configuration['device_defaults']['name']}\n"
            f"GPU UUID: \t {device['uuid']}\n"
            f"Bus Type: \t PCIe\n"
            f"Bus Location: \t {slot}\n"
            f"Device Minor: \t {device['minor_number']}\n"
        )
