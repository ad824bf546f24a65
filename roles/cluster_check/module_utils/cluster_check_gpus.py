# Copyright Trainyard. Apache-2.0
"""State of the NVIDIA GPUs of this machine, from `nvidia-smi -q -x` and the kernel's log."""

from __future__ import annotations

import re
import subprocess
from typing import Any
from xml.etree import ElementTree

from ansible.module_utils.cluster_check_finding import CodedCheck, coded
from ansible.module_utils.training_node_check import at_most, equal

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
            match = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", file.read())
    except FileNotFoundError:
        return ""
    return match[1] if match else ""


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
) -> list[CodedCheck]:
    """Compare the GPUs with what the inventory says, and look at their state.

    Args:
        gpus: as `parse_gpus` returns them.
        trouble: why they could not be asked; empty where they could.
        count: how many the inventory says there are; 0 says nothing.
        model: their model in the inventory; empty says nothing.
        celsius: highest temperature.
    """
    if trouble:
        threshold = f"{count} {model}".strip() if count else "an answer"
        return [coded(equal("GPUs", trouble, threshold), "gpus_silent")]
    checks = []
    if count:
        checks.append(coded(equal("GPUs", len(gpus), count), "gpus_missing"))
    for gpu in gpus:
        subject = f"GPU {gpu['index']}"
        if model:
            same = equal("GPU model", gpu["model"], model, subject=subject)
            checks.append(coded(same, "gpu_other_model"))
        if gpu["celsius"] is not None:
            cool = at_most("GPU temperature", gpu["celsius"], celsius, "°C", subject=subject)
            checks.append(coded(cool, "gpu_hot"))
        errors = gpu["uncorrected_errors"]
        right = at_most("GPU ECC errors", errors, 0, "uncorrected", subject=subject)
        checks.append(coded(right, "gpu_ecc_errors"))
        xids = ", ".join(map(str, gpu["xids"])) or "none"
        quiet = equal("GPU Xid errors", xids, "none", subject=subject)
        checks.append(coded(quiet, "gpu_xid_errors"))
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
    match = re.match(r"\d+", text or "")
    return int(match[0]) if match else None


def _slot(text: str) -> str:
    """A card's place on the bus without its function: `00000000:3B:00.0` and `0000:3b:00` alike."""
    match = re.search(r"([0-9a-f]{2}):([0-9a-f]{2})(?:\.\d)?$", text.lower())
    return f"{match[1]}:{match[2]}" if match else text.lower()
