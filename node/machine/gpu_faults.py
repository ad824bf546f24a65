"""What goes wrong with the GPUs of this machine while it is used."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from .amd import read_amd_gpus
from .gpus import AMD, read_gpus

LOG_SECONDS = 20
# "[ 1234.567890] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, ...": a fault the driver saw, by number
# (docs.nvidia.com/deploy/xid-errors). The time is in seconds since the machine was started. Of a
# GPU in MIG mode it says in which part: "(PCI:0000:3b:00 GPU-I:05)".
XID = re.compile(
    r"^(?:\[\s*(?P<time>\d+\.\d+)\] )?"
    r".*NVRM: Xid \(PCI:(?P<slot>[0-9a-fA-F:.]+)[^)]*\): (?P<number>\d+)",
    re.MULTILINE,
)
# Xids that a user's program causes: 13 and 31 faults in a kernel, 43 its end, 45 its clean-up.
OF_PROGRAMS = frozenset({13, 31, 43, 45})


def kernel_log() -> str:
    """The kernel's log; empty where it cannot be read."""
    with suppress(OSError, subprocess.TimeoutExpired):
        answer = subprocess.run(["dmesg"], capture_output=True, text=True, timeout=LOG_SECONDS)
        return answer.stdout
    return ""


def xids(log: str, since: float = 0.0) -> dict[str, list[int]]:
    """The faults that the driver saw, but for those that programs cause: sorted numbers by card.

    Args:
        since: no older ones, in seconds since the machine was started.
    """
    found: dict[str, set[int]] = {}
    for match in XID.finditer(log):
        number = int(match["number"])
        if number not in OF_PROGRAMS and float(match["time"] or since) >= since:
            found.setdefault(bus_slot(match["slot"]), set()).add(number)
    return {slot: sorted(numbers) for slot, numbers in found.items()}


def bus_slot(text: str) -> str:
    """A card's place on the bus without its function: `0000:3b:00`, also of `00000000:3B:00.0`.

    The domain belongs to it: large machines have several, each with the same numbers of buses.
    """
    match = re.search(r"(?:([0-9a-f]+):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.\d)?$", text.lower())
    return f"{int(match[1] or '0', 16):04x}:{match[2]}:{match[3]}" if match else text.lower()


def seconds_since_start(path: str) -> float:
    """When a file was written, as the kernel's log counts: in seconds since the machine's start.

    Raises:
        OSError: it is not there.
    """
    age = time.time() - os.stat(path).st_mtime
    return time.clock_gettime(time.CLOCK_MONOTONIC) - age


def gpu_faults(
    before: Sequence[Mapping[str, Any]], since: float
) -> list[tuple[str, dict[str, Any]]]:
    """What went wrong with some GPUs since a moment.

    Args:
        before: what they told then, as `Gpu.asdict` has it.
        since: the moment, in seconds since the machine was started.

    Returns:
        Codes `gpu_lost`, `gpu_ecc_errors` and `gpu_xid_errors`, each with its values, the worst
        first.
    """
    if not before:
        return []
    # A node has GPUs of one vendor; what a run of an earlier version noted does not say whose.
    amd = before[0].get("vendor") == AMD
    now, silent = read_amd_gpus() if amd else read_gpus()
    told = {gpu.uuid: gpu for gpu in now if gpu.uuid}
    # One that has no handle any more is known by its place.
    nameless = {bus_slot(gpu.slot): gpu for gpu in now if not gpu.uuid}
    seen = xids(kernel_log(), since)
    lost, ecc, xid = [], [], []
    for gpu in before:
        who = {"gpu": gpu["index"], "model": gpu["model"]}
        later = told.get(gpu["uuid"]) or nameless.get(bus_slot(gpu["slot"]))
        trouble = silent or (later.trouble if later else "it is no longer there")
        if trouble and not gpu["trouble"]:
            lost.append(("gpu_lost", {**who, "message": " ".join(trouble.split())}))
        # What a run of an earlier version noted has no number of errors.
        noted = gpu.get("uncorrected_errors")
        errors = later.uncorrected_errors - noted if later and noted is not None else 0
        if errors > 0:
            ecc.append(("gpu_ecc_errors", {**who, "errors": errors}))
        numbers = seen.get(bus_slot(gpu["slot"]), [])
        if numbers:
            xid.append(("gpu_xid_errors", {**who, "xids": ", ".join(map(str, numbers))}))
    return [*lost, *ecc, *xid]
