"""How busy a machine is now: processor, memory, disk and GPUs.

In a container these are the figures of the machine that it runs on, as /proc tells them.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import Any

PROC = "/proc"
# The part of the NVIDIA driver that answers questions; see its header, nvml.h.
NVML = "libnvidia-ml.so.1"
NAME_BYTES = 96  # NVML_DEVICE_NAME_V2_BUFFER_SIZE


class ProcessorLook:
    """The processor's times at a moment, to be compared with those of a later one."""

    def __init__(self) -> None:
        with open(f"{PROC}/stat", encoding="ascii") as file:
            # proc(5): user nice system idle iowait irq softirq steal; guests are part of user.
            times = [int(time) for time in file.readline().split()[1:9]]
        self._idle = sum(times[3:5])
        self._total = sum(times)

    def percent_until(self, later: ProcessorLook) -> float | None:
        """Return how much of all cores was busy between two looks, 0 to 100; None at once."""
        total = later._total - self._total
        idle = later._idle - self._idle
        return round(100 * min(1.0, max(0.0, 1 - idle / total)), 1) if total > 0 else None


class _Utilisation(ctypes.Structure):
    """nvmlUtilization_t, in percent of the last sample's time."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    """nvmlMemory_t, in bytes."""

    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class Gpus:
    """NVIDIA's GPUs of this machine; none where there is no driver.

    To open the driver's library takes longer than to ask it, so one object serves many looks.
    """

    def __init__(self) -> None:
        self._handles: list[tuple[int, ctypes.c_void_p]] = []
        self._nvml: Any = None
        try:
            nvml = ctypes.CDLL(NVML)
        except OSError:
            return
        if nvml.nvmlInit_v2():
            return
        self._nvml = nvml
        count = ctypes.c_uint()
        if self._nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
            return
        for index in range(count.value):
            handle = ctypes.c_void_p()
            # One that has fallen off the bus has no handle.
            if not self._nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
                self._handles.append((index, handle))

    def sample(self) -> list[dict[str, Any]]:
        """Return index, name, utilisation_percent, memory_used_bytes and memory_bytes of each.

        None stands for what a GPU does not tell.
        """
        return [self._sample(index, handle) for index, handle in self._handles]

    def close(self) -> None:
        """Let go of the driver; there is nothing to sample any more."""
        if self._nvml is not None:
            self._nvml.nvmlShutdown()
        self._nvml, self._handles = None, []

    def _sample(self, index: int, handle: ctypes.c_void_p) -> dict[str, Any]:
        name = ctypes.create_string_buffer(NAME_BYTES)
        busy, memory = _Utilisation(), _Memory()
        named = not self._nvml.nvmlDeviceGetName(handle, name, NAME_BYTES)
        told = not self._nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(busy))
        sized = not self._nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
        return {
            "index": index,
            "name": name.value.decode(errors="replace") if named else "GPU",
            "utilisation_percent": busy.gpu if told else None,
            "memory_used_bytes": memory.used if sized else None,
            "memory_bytes": memory.total if sized else None,
        }


def memory() -> dict[str, int | None]:
    """Return memory_bytes and memory_used_bytes of this machine.

    Used is what programs could not have: proc(5), MemTotal without MemAvailable (Linux 3.14).
    """
    values = {}
    with open(f"{PROC}/meminfo", encoding="ascii") as file:
        for line in file:
            name, _, rest = line.partition(":")
            values[name] = 1024 * int(rest.split()[0])
    whole = values["MemTotal"]
    free = values.get("MemAvailable")
    return {"memory_bytes": whole, "memory_used_bytes": None if free is None else whole - free}


def disk(directory: str) -> dict[str, int | None]:
    """Return disk_bytes of the disk of a directory, and disk_free_bytes for an ordinary user."""
    with suppress(OSError):  # a share may be away
        about = os.statvfs(directory)
        return {
            "disk_bytes": about.f_blocks * about.f_frsize,
            "disk_free_bytes": about.f_bavail * about.f_frsize,
        }
    return {"disk_bytes": None, "disk_free_bytes": None}


def load(directory: str, before: ProcessorLook, gpus: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how busy this machine is.

    Args:
        directory: of the runs, of whose disk it tells.
        before: a look at the processor a moment ago.
    """
    return {
        "cpu_percent": before.percent_until(ProcessorLook()),
        "cores": os.cpu_count(),
        **memory(),
        **disk(directory),
        "gpus": gpus,
    }
