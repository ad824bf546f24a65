# Copyright Trainyard. Apache-2.0
"""State of the NVIDIA GPUs of this machine, from `nvidia-smi -q -x` and the kernel's log."""

from __future__ import annotations

import re
import subprocess
from typing import Any
from xml.etree import ElementTree

from ansible.module_utils.check import Check, at_most, equal

DRIVER = "/proc/driver/nvidia/version"
QUERY_SECONDS = 20
# "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, ...": a fault the driver saw, by number
# (docs.nvidia.com/deploy/xid-errors).
XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")
# Xids that a user's program causes: 13 and 31 faults in a kernel, 43 its end, 45 its clean-up.
OF_PROGRAMS = frozenset({13, 31, 43, 45})


def driver_release() -> str:
    """Release of the driver in the kernel; empty where none is loaded."""
    try:
        with open(DRIVER, encoding="ascii") as file:
            found = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", file.read())
    except FileNotFoundError:
        return ""
    return found[1] if found else ""


def read_gpus() -> tuple[list[dict[str, Any]], str]:
    """GPUs, and why they could not be asked (empty where they could)."""
    try:
        answer = subprocess.run(
            ["nvidia-smi", "-q", "-x"], capture_output=True, text=True, timeout=QUERY_SECONDS
        )
        log = subprocess.run(["dmesg"], capture_output=True, text=True, timeout=QUERY_SECONDS)
    except FileNotFoundError as error:
        return [], f"there is no {error.filename}"
    except subprocess.TimeoutExpired:
        return [], f"nvidia-smi gave no answer within {QUERY_SECONDS} s"
    if answer.returncode != 0:
        return [], (answer.stdout + answer.stderr).strip()
    return parse_gpus(answer.stdout, log.stdout), ""


def parse_gpus(document: str, kernel_log: str) -> list[dict[str, Any]]:
    """Read the output of `nvidia-smi -q -x`, and count the driver's faults by card."""
    root = ElementTree.fromstring(document)
    xids = [(_slot(slot), int(number)) for slot, number in XID.findall(kernel_log)]
    gpus = []
    for index, gpu in enumerate(root.findall("gpu")):
        slot = _slot(gpu.get("id", ""))
        gpus.append(
            {
                "index": index,
                "model": gpu.findtext("product_name", ""),
                "slot": slot,
                "driver": root.findtext("driver_version", ""),
                "cuda": root.findtext("cuda_version", ""),
                "memory_bytes": 2**20 * (_number(gpu.findtext("fb_memory_usage/total")) or 0),
                "celsius": _number(gpu.findtext("temperature/gpu_temp")),
                "uncorrected_errors": _uncorrected(gpu),
                "xids": sorted({number for at, number in xids if at == slot} - OF_PROGRAMS),
            }
        )
    return gpus


def gpu_checks(
    gpus: list[dict[str, Any]], trouble: str, count: int, model: str, celsius: float
) -> list[Check]:
    """Compare the GPUs with what the inventory says, and look at their state."""
    if trouble:
        return [
            equal(
                "GPUs",
                trouble,
                f"{count} {model}".strip() if count else "an answer",
                remedy="is the driver loaded, and of nvidia-smi's release? role nvidia_driver",
            )
        ]
    checks = []
    if count:
        checks.append(
            equal(
                "GPUs",
                len(gpus),
                count,
                remedy="a card fell off the bus, or gpu_count of this host is wrong: lspci, dmesg",
            )
        )
    for gpu in gpus:
        subject = f"GPU {gpu['index']}"
        if model:
            checks.append(
                equal(
                    "GPU model",
                    gpu["model"],
                    model,
                    subject=subject,
                    remedy="put it right in gpu_model of this host, or take the host out",
                )
            )
        if gpu["celsius"] is not None:
            checks.append(
                at_most(
                    "GPU temperature",
                    gpu["celsius"],
                    celsius,
                    "°C",
                    subject=subject,
                    remedy="look at the fans and at the air in front of this machine",
                )
            )
        checks.append(
            at_most(
                "GPU ECC errors",
                gpu["uncorrected_errors"],
                0,
                "uncorrected",
                subject=subject,
                remedy="reset the card when it is idle; if they come back, have it replaced",
            )
        )
        checks.append(
            equal(
                "GPU Xid errors",
                ", ".join(map(str, gpu["xids"])) or "none",
                "none",
                subject=subject,
                remedy="look the numbers up in NVIDIA's list of Xid errors; dmesg has the lines",
            )
        )
    return checks


def _uncorrected(gpu: ElementTree.Element) -> int:
    """Uncorrected memory errors since the driver was loaded; element names differ by generation."""
    volatile = gpu.find("ecc_errors/volatile")
    if volatile is None:
        return 0
    old = volatile.find("double_bit/total")
    if old is not None:
        return _number(old.text) or 0
    return sum(_number(element.text) or 0 for element in volatile if "uncorrectable" in element.tag)


def _number(text: str | None) -> int | None:
    """The number in `40 C` or `11178 MiB`; None for `N/A`."""
    found = re.match(r"\d+", text or "")
    return int(found[0]) if found else None


def _slot(text: str) -> str:
    """A card's place on the bus without its function: `00000000:3B:00.0` and `0000:3b:00` alike."""
    found = re.search(r"([0-9a-f]{2}):([0-9a-f]{2})(?:\.\d)?$", text.lower())
    return f"{found[1]}:{found[2]}" if found else text.lower()
