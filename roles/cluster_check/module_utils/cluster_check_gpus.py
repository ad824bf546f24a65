# Copyright Trainyard. Apache-2.0
"""State of the NVIDIA GPUs of this machine, as nvidia-smi and the kernel's log tell it."""

from __future__ import annotations

import csv
import re
import subprocess
from typing import Any

from ansible.module_utils.cluster_check_finding import CodedCheck, coded
from ansible.module_utils.training_node_check import at_most, equal
from ansible.module_utils.training_node_gpus import trouble_of

DRIVER = "/proc/driver/nvidia/version"
QUERY_SECONDS = 20
# What is asked of every GPU. The errors are those since the driver was loaded, of all memories of
# the card. The same is in `nvidia-smi -q -x` under names that differ by generation.
FIELDS = (
    "index",
    "name",
    "pci.bus_id",
    "driver_version",
    "memory.total",
    "temperature.gpu",
    "ecc.errors.uncorrected.volatile.total",
)
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
        query = f"--query-gpu={','.join(FIELDS)}"
        status, said = _run("nvidia-smi", query, "--format=csv,noheader,nounits")
        if status != 0:
            return [], said or f"nvidia-smi ended with status {status}"
        # Its table tells the CUDA that the driver takes, which no query does.
        _, table = _run("nvidia-smi")
        _, log = _run("dmesg")
    except FileNotFoundError as error:
        return [], f"there is no {error.filename}"
    except subprocess.TimeoutExpired:
        return [], f"nvidia-smi gave no answer within {QUERY_SECONDS} s"
    return parse_gpus(said, table, log), ""


def parse_gpus(said: str, table: str, kernel_log: str) -> list[dict[str, Any]]:
    """Read what nvidia-smi says, and count the driver's faults by card.

    Args:
        said: the answer to a query for FIELDS, as CSV without head and units.
        table: what it says when it is asked nothing.
        kernel_log: that of dmesg.
    """
    xids = [(_slot(slot), int(number)) for slot, number in XID.findall(kernel_log)]
    cuda = re.search(r"CUDA Version: *(\d+\.\d+)", table)
    gpus = []
    for row in csv.reader(said.splitlines(), skipinitialspace=True):
        if len(row) != len(FIELDS):
            continue  # a warning: "WARNING: infoROM is corrupted at gpu 0000:3B:00.0"
        index, model, slot, driver, memory, celsius, errors = row
        gpus.append(
            {
                "index": int(index),
                "model": model,
                "slot": _slot(slot),
                "driver": driver,
                "cuda": cuda[1] if cuda else "",
                "memory_bytes": 2**20 * (_number(memory) or 0),
                "celsius": _number(celsius),
                "uncorrected_errors": _number(errors) or 0,
                "xids": sorted({number for at, number in xids if at == _slot(slot)} - OF_PROGRAMS),
                "trouble": trouble_of(memory),
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
        answers = equal("GPU state", gpu["trouble"] or "answers", "answers", subject=subject)
        checks.append(coded(answers, "gpu_lost"))
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


def _run(*command: str) -> tuple[int, str]:
    """Exit status and output of a command."""
    answer = subprocess.run(command, capture_output=True, text=True, timeout=QUERY_SECONDS)
    said = answer.stdout if answer.returncode == 0 else answer.stdout + answer.stderr
    return answer.returncode, said.strip()


def _number(text: str) -> int | None:
    """A number; None for `[N/A]` and for errors."""
    return int(text) if text.isdecimal() else None


def _slot(text: str) -> str:
    """A card's place on the bus without its function: `00000000:3B:00.0` and `0000:3b:00` alike."""
    match = re.search(r"([0-9a-f]{2}):([0-9a-f]{2})(?:\.\d)?$", text.lower())
    return f"{match[1]}:{match[2]}" if match else text.lower()
