"""The bus bandwidth of an allreduce over message sizes."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from trainer.device import wait_for

SIZES = tuple(4**power for power in range(6, 14))  # 4 KiB to 64 MiB
# Seconds of measurement of one size, about; and of one sum, after which no larger one is measured.
TURN_SECONDS = 0.1
LONGEST_SECONDS = 1.0
MOST = 20


@dataclass(frozen=True)
class Bandwidth:
    """An allreduce of one size.

    Attributes:
        seconds: mean of one sum on the slowest rank.
        algorithm_gigabits_per_second: size by time.
        bus_gigabits_per_second: see `bus_factor`.
    """

    bytes: int
    seconds: float
    algorithm_gigabits_per_second: float
    bus_gigabits_per_second: float


def bus_factor(world_size: int) -> float:
    """What a rank sends and receives in an allreduce, over the size of it: 2 (n - 1) / n.

    "Bus bandwidth" as NCCL's tests define it (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md):
    busbw = algbw * 2 (n - 1) / n, where algbw is the size by the time. It does not depend on the
    number of ranks n, and can be compared with what the hardware carries.
    """
    return 2 * (world_size - 1) / world_size


def measure_bandwidth(
    allreduce: Callable[[Tensor, str], Tensor],
    slowest: Callable[[float], float],
    world_size: int,
    device: torch.device,
    sizes: tuple[int, ...] = SIZES,
) -> list[Bandwidth]:
    """Sum float32 tensors of growing size over all ranks.

    Args:
        allreduce: sums a tensor over all ranks in place; the second is the name of it.
        slowest: the largest of the numbers that the ranks give it.
        sizes: in bytes, ascending.

    Returns:
        A measurement for every size, up to the one that took too long.
    """
    measurements = []
    for size in sizes:
        values = torch.zeros(size // 4, device=device)
        # Connections and buffers are made by the first ones; the ranks agree on its time.
        spent = slowest(_seconds(allreduce, values, 1))
        times = max(min(int(TURN_SECONDS / spent), MOST), 1)
        # One that took long is done again, too: others may have had the processor meanwhile.
        spent = slowest(_seconds(allreduce, values, times))
        algorithm = 8e-9 * size / spent
        measurements.append(Bandwidth(size, spent, algorithm, algorithm * bus_factor(world_size)))
        if spent >= LONGEST_SECONDS:
            break
    return measurements


def _seconds(allreduce: Callable[[Tensor, str], Tensor], values: Tensor, times: int) -> float:
    wait_for(values.device)
    start = perf_counter()
    for _ in range(times):
        allreduce(values, f"verify.bandwidth.{len(values)}")
    wait_for(values.device)
    return (perf_counter() - start) / times
