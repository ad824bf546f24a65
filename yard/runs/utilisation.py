"""`nodes/<host>/utilisation.jsonl`: how busy the machines of a run were."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from yard.core.files import decoded_lines, read_end, read_object

FILE = "utilisation.jsonl"
# What the node was when the run began, with the GPUs that it got.
FACTS = "facts.json"
# Five seconds lie between two samples: so many make it sure that the ranks worked.
ENOUGH_SAMPLES = 4
# A GPU counts as too hot that slowed itself down in so many of the newest samples, and in this
# share of them: a moment of it is no trouble.
HOT_SAMPLES, HOT_SHARE = 3, 0.1
# GPUs that were busy less than this, in percent, count as idle; so many samples, of a minute, are
# needed to tell, so that the start counts little.
IDLE, ENOUGH_FOR_IDLE = 60, 12
# The end of a file that has as many, of nodes with many ranks and GPUs too.
TAIL_BYTES = 64 * 1024


@dataclass(frozen=True)
class Gpu:
    """One sample of one GPU; None where the driver does not tell.

    In the file `index` counts those of the container; `read_utilisation` makes it the node's.
    """

    index: int
    name: str
    utilisation_percent: float | None
    memory_bytes: float | None
    power_watts: float | None
    temperature_celsius: float | None
    slowed_by_heat: bool | None = None


@dataclass(frozen=True)
class Sample:
    """One look at a machine.

    Attributes:
        time: Unix seconds of the node's clock.
        cpu_percent: of all cores of the node, 0 to 100.
        memory_bytes: in use on the node.
        rss_bytes: resident size by rank.
        gpus: its GPUs, in order; empty without any.
        connected: whether a rank there has held a connection to another node so far; None where
            nobody looked.
    """

    time: float
    cpu_percent: float | None
    memory_bytes: float | None
    rss_bytes: Mapping[int, float]
    gpus: tuple[Gpu, ...]
    connected: bool | None = None

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "Sample":
        """Build one from a decoded line; what a node could not measure may be missing.

        Raises:
            KeyError, TypeError, ValueError: it is no such line.
        """
        return cls(
            time=float(line["time"]),
            cpu_percent=_number(line.get("cpu_percent")),
            memory_bytes=_number(line.get("memory_bytes")),
            rss_bytes={
                int(rank): float(size) for rank, size in (line.get("rss_bytes") or {}).items()
            },
            gpus=tuple(
                Gpu(
                    index=int(gpu["index"]),
                    name=str(gpu.get("name", "GPU")),
                    utilisation_percent=_number(gpu.get("utilisation_percent")),
                    memory_bytes=_number(gpu.get("memory_bytes")),
                    power_watts=_number(gpu.get("power_watts")),
                    temperature_celsius=_number(gpu.get("temperature_celsius")),
                    slowed_by_heat=_truth(gpu.get("slowed_by_heat")),
                )
                for gpu in line.get("gpus") or []
            ),
            connected=_truth(line.get("connected")),
        )


@dataclass(frozen=True)
class Heat:
    """A GPU that was too hot; in `slowed` of the newest samples it slowed itself down."""

    host: str
    gpu: int
    slowed: int
    samples: int


def read_utilisation(run: Path) -> dict[str, list[Sample]]:
    """The samples of a run by host, in order of time; hosts without any are left out.

    Those of earlier attempts of the run count as well. GPUs have the numbers of their node.
    """
    hosts: dict[str, list[Sample]] = {}
    for path in (*run.glob(f"nodes/*/{FILE}"), *run.glob(f"attempts/*/nodes/*/{FILE}")):
        samples = hosts.setdefault(path.parent.name, [])
        numbers = _numbers_of_gpus(path.with_name(FACTS))
        samples += [
            _with_numbers(sample, numbers)
            for sample in _samples(path.read_text(encoding="utf-8", errors="replace"))
        ]
    return {
        host: sorted(hosts[host], key=lambda sample: sample.time)
        for host in sorted(hosts)
        if hosts[host]
    }


def never_connected(run: Path, hosts: Sequence[str], samples: int = ENOUGH_SAMPLES) -> bool:
    """Whether no rank of any node held a connection to another node, in the newest attempt.

    It is not said of a run that was over after a few samples: a connection may be shorter than the
    time between two.

    Args:
        samples: how many each node must have.
    """
    if len(hosts) < 2:
        return False
    for host in hosts:
        taken = _newest(run / "nodes" / host / FILE)
        if len(taken) < samples or taken[-1].connected is not False:
            return False
    return True


def slowed_by_heat(run: Path, hosts: Sequence[str]) -> tuple[Heat, ...]:
    """The GPUs of a run that were too hot in the newest samples of its newest attempt."""
    found = []
    for host in hosts:
        path = run / "nodes" / host / FILE
        numbers = _numbers_of_gpus(path.with_name(FACTS))
        if not numbers:
            continue
        told: dict[int, list[bool]] = {}
        for sample in _newest(path):
            for gpu in _with_numbers(sample, numbers).gpus:
                # Ranks write the samples; which GPUs they got the node says.
                if gpu.slowed_by_heat is not None and gpu.index in numbers:
                    told.setdefault(gpu.index, []).append(gpu.slowed_by_heat)
        found += [Heat(host, gpu, sum(said), len(said)) for gpu, said in sorted(told.items())]
    return tuple(
        heat for heat in found if heat.slowed >= max(HOT_SAMPLES, HOT_SHARE * heat.samples)
    )


def idle_gpus(run: Path, hosts: Sequence[str]) -> float | None:
    """How busy the GPUs of a run were on average in its newest attempt, in percent.

    Returns:
        None where they were busy enough, or nothing is known of that.
    """
    busy = [
        gpu.utilisation_percent
        for host in hosts
        if len(samples := _newest(run / "nodes" / host / FILE)) >= ENOUGH_FOR_IDLE
        for sample in samples
        for gpu in sample.gpus
        if gpu.utilisation_percent is not None
    ]
    mean = sum(busy) / len(busy) if busy else IDLE
    return mean if 0 <= mean < IDLE else None


def _newest(path: Path) -> list[Sample]:
    """The samples at the end of a file, in its order."""
    return _samples(read_end(path, TAIL_BYTES))


def _numbers_of_gpus(facts: Path) -> list[int]:
    devices = read_object(facts).get("gpu_devices")
    if not isinstance(devices, list):
        return []
    numbers = [device.get("index") if isinstance(device, dict) else None for device in devices]
    return sorted(number for number in numbers if type(number) is int)


def _with_numbers(sample: Sample, numbers: Sequence[int]) -> Sample:
    """A sample with the numbers that GPUs have on their node.

    A container counts those that it was given from 0, in the order of the node. Where it saw others
    than those that are noted, they keep its numbers.
    """
    if sorted(gpu.index for gpu in sample.gpus) != list(range(len(numbers))):
        return sample
    gpus = tuple(replace(gpu, index=numbers[gpu.index]) for gpu in sample.gpus)
    return replace(sample, gpus=gpus)


def _samples(text: str) -> list[Sample]:
    samples = []
    for line in decoded_lines(text):
        # A rank may write anything else.
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            samples.append(Sample.from_json(line))
    return samples


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    """A finite number, or None."""
    return float(value) if value is not None and math.isfinite(float(value)) else None
