"""Utilisation of the node by a run, sampled every few seconds during training."""

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import psutil

from trainer.sysfs import read_text

EVERY_SECONDS = 5.0
# The vendor of AMD's cards, as the kernel has it.
AMD = "0x1002"


@dataclass(frozen=True)
class GpuSample:
    """A GPU at a moment; None for what it does not tell.

    Attributes:
        index: its number among those that the container was given, from 0 on.
        utilisation_percent: of the time in which it computed.
        memory_bytes: used.
        slowed_by_heat: whether its clock is lower than it could be, for it is too hot.
    """

    index: int
    name: str
    utilisation_percent: float | None
    memory_bytes: float | None
    power_watts: float | None
    temperature_celsius: float | None
    slowed_by_heat: bool | None


@dataclass(frozen=True)
class Sample:
    """A node at a moment.

    Attributes:
        time: Unix seconds.
        cpu_percent: of all cores of the node.
        memory_bytes: used on the node.
        rss_bytes: resident size by rank.
        connected: whether a rank of this node has held a connection to another node so far; None
            where nobody looks.
    """

    time: float
    cpu_percent: float
    memory_bytes: int
    rss_bytes: dict[str, int]
    gpus: list[GpuSample]
    connected: bool | None


def utilisation_file(run_dir: Path) -> Path:
    """Where the samples of this node are in a run directory."""
    return run_dir / "nodes" / socket.gethostname() / "utilisation.jsonl"


class UtilisationSampler:
    """Appends samples, the fields of `Sample`, to a file from a thread of its own.

    Args:
        pids: tells the process ids of this node's ranks, by rank.
        every: seconds between two samples.
    """

    def __init__(
        self,
        path: Path,
        pids: Callable[[], Mapping[int, int]],
        connected: Callable[[], bool | None] = lambda: None,
        every: float = EVERY_SECONDS,
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._every = every
        self._pids = pids
        self._connected = connected
        self._gpus = Gpus()
        self._amd_gpus = AmdGpus()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="utilisation", daemon=True)

    def __enter__(self) -> Self:
        psutil.cpu_percent()  # the first call has nothing to compare with
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def sample(self) -> Sample:
        rss = {}
        for rank, pid in self._pids().items():
            try:
                rss[str(rank)] = psutil.Process(pid).memory_info().rss
            except psutil.NoSuchProcess:
                continue  # it has ended before this one
        return Sample(
            time=time.time(),
            cpu_percent=psutil.cpu_percent(),
            memory_bytes=psutil.virtual_memory().used,
            rss_bytes=rss,
            gpus=[*self._gpus.sample(), *self._amd_gpus.sample()],
            connected=self._connected(),
        )

    def _run(self) -> None:
        with self._path.open("a", encoding="utf-8", buffering=1) as stream:
            while not self._over.wait(self._every):
                stream.write(json.dumps(asdict(self.sample())) + "\n")


class Gpus:
    """NVIDIA's GPUs of the node; none where the package nvidia-ml-py or a driver is missing."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: list[Any] = []
        try:
            import pynvml

            pynvml.nvmlInit()
        except ImportError:
            return
        except pynvml.NVMLError:
            return
        self._nvml = pynvml
        count = pynvml.nvmlDeviceGetCount()
        self._handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]

    def sample(self) -> list[GpuSample]:
        nvml = self._nvml
        return [
            GpuSample(
                index=index,
                name=nvml.nvmlDeviceGetName(handle),
                utilisation_percent=self._read(
                    lambda handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu, handle
                ),
                memory_bytes=self._read(
                    lambda handle: nvml.nvmlDeviceGetMemoryInfo(handle).used, handle
                ),
                power_watts=self._read(
                    lambda handle: nvml.nvmlDeviceGetPowerUsage(handle) / 1000, handle
                ),
                temperature_celsius=self._read(
                    lambda handle: nvml.nvmlDeviceGetTemperature(handle, 0), handle
                ),
                slowed_by_heat=self._read(self._is_slowed_by_heat, handle),
            )
            for index, handle in enumerate(self._handles)
        ]

    def _is_slowed_by_heat(self, handle: Any) -> bool:
        """Whether the card itself or its driver holds the clock down, as NVML names both."""
        nvml = self._nvml
        heat = nvml.nvmlClocksThrottleReasonHwThermalSlowdown
        heat |= nvml.nvmlClocksThrottleReasonSwThermalSlowdown
        return bool(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle) & heat)

    def _read(self, read: Callable[[Any], Any], handle: Any) -> Any:
        try:
            return read(handle)
        except self._nvml.NVMLError:
            return None


class AmdGpus:
    """AMD GPUs that the container was given, as the kernel's files tell of them.

    A container sees what the kernel tells of all cards of its node, and in `dri` the files of
    its own.

    Args:
        drm: where the kernel tells about cards.
        dri: where the files are that programs open.
    """

    def __init__(self, drm: Path = Path("/sys/class/drm"), dri: Path = Path("/dev/dri")) -> None:
        names = (path.name for path in dri.glob("renderD*"))
        cards = [(drm / name / "device").resolve() for name in names]
        # By the place on the bus, as rocm-smi numbers them.
        self._cards = sorted(card for card in cards if read_text(card / "vendor") == AMD)

    def sample(self) -> list[GpuSample]:
        return [self._sample(index, card) for index, card in enumerate(self._cards)]

    def _sample(self, index: int, card: Path) -> GpuSample:
        # A card has one hwmon, whose number is the node's. Instinct MI300 has no sensor 1, at the
        # edge; power is in microwatts, temperature in thousandths of a degree.
        power = [_number(path) for path in card.glob("hwmon/*/power1_average")]
        power += [_number(path) for path in card.glob("hwmon/*/power1_input")]
        heat = [_number(path) for path in sorted(card.glob("hwmon/*/temp*_input"))]
        watts = next((value / 1e6 for value in power if value is not None), None)
        celsius = next((value / 1000 for value in heat if value is not None), None)
        return GpuSample(
            index=index,
            name=read_text(card / "product_name") or f"AMD GPU {read_text(card / 'device')}",
            utilisation_percent=_number(card / "gpu_busy_percent"),
            memory_bytes=_number(card / "mem_info_vram_used"),
            power_watts=watts,
            temperature_celsius=celsius,
            slowed_by_heat=None,  # its driver tells in a binary file alone, gpu_metrics
        )


def _number(path: Path) -> float | None:
    text = read_text(path)
    return float(text) if text.isdecimal() else None
