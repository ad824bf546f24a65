"""State of the GPUs of this machine, as their vendor's program and the kernel tell it."""

from __future__ import annotations

import os
import re
from typing import Any

from ..machine.amd import driver_release as amd_release
from ..machine.amd import read_amd_gpus
from ..machine.gpu_faults import bus_slot, kernel_log, xids
from ..machine.gpus import AMD, NO_ANSWER, NVIDIA, Gpu, ask_smi, loaded_release
from ..machine.gpus import read_gpus as ask_gpus
from .check import Check, at_most, equal


def driver_release(sys: str = "/sys") -> str:
    """Release of the driver in the kernel; empty where none is loaded."""
    amd = amd_release(sys) if os.path.isdir(f"{sys}/module/amdgpu") else ""
    return loaded_release(sys) or amd


def read_gpus(vendor: str = NVIDIA, sys: str = "/sys") -> tuple[list[dict[str, Any]], str]:
    """GPUs, and why they could not be asked (empty where they could).

    Args:
        vendor: whose GPUs the node has, NVIDIA or AMD.
    """
    if vendor == AMD:
        ours, trouble = read_amd_gpus(sys)
        return state_of(ours, "", kernel_log()), trouble
    gpus, trouble = ask_gpus()
    if trouble:
        return [], trouble
    # Its table tells the CUDA that the driver takes, which no query does.
    status, table = ask_smi()
    if status == NO_ANSWER:
        return [], table
    return state_of(gpus, table, kernel_log()), ""


def state_of(gpus: list[Gpu], table: str, log: str) -> list[dict[str, Any]]:
    """What there is to judge of each GPU.

    Args:
        table: what nvidia-smi says when it is asked nothing; empty for AMD's.
        log: the kernel's, whose faults are counted by card.
    """
    faults = xids(log)
    # From 595 on it says "CUDA UMD Version".
    cuda = re.search(r"CUDA (?:UMD )?Version: *(\d+\.\d+)", table)
    return [
        {
            "index": gpu.index,
            "model": gpu.model,
            "slot": bus_slot(gpu.slot),
            "driver": gpu.driver,
            "cuda": cuda[1] if cuda else "",
            "memory_bytes": gpu.memory_bytes,
            "celsius": gpu.celsius,
            "uncorrected_errors": gpu.uncorrected_errors,
            "xids": faults.get(bus_slot(gpu.slot), []),
            "trouble": gpu.trouble,
        }
        for gpu in gpus
    ]


def gpu_checks(
    gpus: list[dict[str, Any]], trouble: str, count: int, model: str, celsius: float
) -> list[Check]:
    """Compare the GPUs with what the inventory says, and look at their state.

    Args:
        gpus: as `state_of` returns them.
        trouble: why they could not be asked; empty where they could.
        count: how many the inventory says there are; 0 says nothing.
        model: their model in the inventory; empty says nothing.
    """
    if trouble:
        threshold = f"{count} {model}".strip() if count else "an answer"
        return [equal("GPUs", trouble, threshold, "gpus_silent")]
    checks = [equal("GPUs", len(gpus), count, "gpus_missing")] if count else []
    for gpu in gpus:
        on = {"subject": f"GPU {gpu['index']}"}
        checks.append(equal("GPU state", gpu["trouble"] or "answers", "answers", "gpu_lost", **on))
        # One that has no handle any more tells no model.
        if model and gpu["model"]:
            checks.append(equal("GPU model", gpu["model"], model, "gpu_other_model", **on))
        if gpu["celsius"] is not None:
            checks.append(
                at_most("GPU temperature", gpu["celsius"], celsius, "°C", "gpu_hot", **on)
            )
        errors = gpu["uncorrected_errors"]
        checks.append(at_most("GPU ECC errors", errors, 0, "uncorrected", "gpu_ecc_errors", **on))
        xids = ", ".join(map(str, gpu["xids"])) or "none"
        checks.append(equal("GPU Xid errors", xids, "none", "gpu_xid_errors", **on))
    return checks
