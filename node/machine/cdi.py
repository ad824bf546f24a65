"""What containers get of this machine's NVIDIA GPUs, by the specifications that say it.

CDI, the Container Device Interface (github.com/cncf-tags/container-device-interface, SPEC.md):
files in two folders name devices, `nvidia.com/gpu=0`, each with what a container gets. NVIDIA's
toolkit writes one (`nvidia-ctk cdi generate`). A file is JSON or YAML; for YAML Python needs
PyYAML, Debian's python3-yaml.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .gpus import Gpu

NVIDIA_GPU = "nvidia.com/gpu"
# Of two that name a device the one in the later folder counts.
FOLDERS = ("/etc/cdi", "/var/run/cdi")
# A library of the driver has its release in its name: libcuda.so.550.163.01
RELEASE = re.compile(r"/lib(?:cuda|nvidia-ml)\.so\.(\d{3,}\.\d+(?:\.\d+)?)$")


class SpecificationError(Exception):
    """A specification cannot be read, or lacks a device; says which and what helps."""


@dataclass(frozen=True)
class Edits:
    """What a container gets.

    Attributes:
        devices: files of devices, of the machine and of the container.
        mounts: files and folders, of the machine and of the container.
    """

    environment: dict[str, str] = field(default_factory=dict)
    devices: dict[str, str] = field(default_factory=dict)
    mounts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Specification:
    """The GPUs that this machine has for containers.

    Attributes:
        devices: what a container gets with each, by name, in parts (`containerEdits`).
    """

    path: str
    devices: dict[str, list[dict[str, Any]]]

    @property
    def release(self) -> str:
        """Release of the driver that it was made for; empty where no library tells."""
        paths = self.edits(list(self.devices)).mounts
        return next((found[1] for found in map(RELEASE.search, paths) if found), "")

    def edits(self, names: Sequence[str]) -> Edits:
        """What a container gets with these devices.

        Raises:
            SpecificationError: it does not have one of them.
        """
        edits = Edits()
        for name in names:
            if name not in self.devices:
                raise SpecificationError(f"{self.path} has no device {NVIDIA_GPU}={name}")
            for part in self.devices[name]:
                edits.environment.update(
                    entry.partition("=")[::2] for entry in part.get("env") or ()
                )
                edits.devices.update(
                    (node.get("hostPath") or node["path"], node["path"])
                    for node in part.get("deviceNodes") or ()
                )
                edits.mounts.update(
                    (mount["hostPath"], mount["containerPath"])
                    for mount in part.get("mounts") or ()
                )
        return edits

    def names_of(self, gpus: Sequence[Gpu]) -> list[str]:
        """What it calls these GPUs.

        NVIDIA's toolkit names them by number, UUID, or both (`--device-name-strategy`).

        Raises:
            SpecificationError: it does not have one of them.
        """
        names = []
        for gpu in gpus:
            called = (str(gpu.index), gpu.uuid, f"gpu{gpu.index}")
            name = next((name for name in called if name in self.devices), "")
            if not name:
                raise SpecificationError(f"{self.path} has no device for GPU {gpu.index}")
            names.append(name)
        return names


def find_specification(folders: Sequence[str] = FOLDERS) -> Specification | None:
    """The specification of NVIDIA's GPUs; None where this machine has none.

    Raises:
        SpecificationError: what there is cannot be read.
    """
    devices: dict[str, list[dict[str, Any]]] = {}
    path, trouble = "", ""
    for file in _files(folders):
        try:
            document = _read(file)
            if document.get("kind") != NVIDIA_GPU:
                continue
            common = document.get("containerEdits") or {}
            for device in document["devices"]:
                devices[str(device["name"])] = [common, device.get("containerEdits") or {}]
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            trouble = f"{file}: {error}"
        except SpecificationError as error:
            trouble = str(error)
        else:
            path = file
    if not devices and trouble:
        raise SpecificationError(trouble)
    return Specification(path, devices) if devices else None


def _files(folders: Sequence[str]) -> list[str]:
    found = []
    for folder in folders:
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        found += [os.path.join(folder, name) for name in names if name.endswith((".json", ".yaml"))]
    return found


def _read(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    document: Any
    if path.endswith(".json"):
        document = json.loads(text)
    else:
        try:
            import yaml  # is not on every machine
        except ImportError as error:
            raise SpecificationError(
                f"{path} is YAML: install python3-yaml, or write JSON: nvidia-ctk cdi generate "
                "--format=json --output=/etc/cdi/nvidia.json"
            ) from error
        try:
            document = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(" ".join(str(error).split())) from error
    if not isinstance(document, dict):
        raise ValueError("not an object")
    return document
