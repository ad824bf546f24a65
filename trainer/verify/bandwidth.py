"""The bus bandwidth of an allreduce over message sizes."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

SIZES = tuple(4**power for power in range(6, 14))  # 4 KiB to 64 MiB
# Seconds of measurement of one size, about; and of one sum, after which no larger one is measured.
TURN_SECONDS = 0.1
LONGEST_SECONDS = 1.0
MOST = 20


def bus_factor(world_size: int) -> float:
    """Share of its size that each rank sends and receives in an allreduce: 2 (n - 1) / n.

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
) -> list[dict[str, Any]]:
    """Sum float32 tensors of growing size over all ranks.

    Args:
        allreduce: sums a tensor over all ranks in place; the second is the name of it.
        slowest: the largest of the numbers that the ranks give it.
        device: where the tensors are.
        sizes: in bytes, ascending.

    Returns:
        [{"bytes", "seconds": mean of one sum on the slowest rank, "algorithm_gigabits_per_second",
        "bus_gigabits_per_second"}, ...], up to the size that took too long.
    """
    found = []
    for size in sizes:
        values = torch.zeros(size // 4, device=device)
        # Connections and buffers are made by the first ones; the ranks agree on its time.
        spent = slowest(_seconds(allreduce, values, 1))
        times = max(min(int(TURN_SECONDS / spent), MOST), 1)
        if spent < LONGEST_SECONDS:
            spent = slowest(_seconds(allreduce, values, times))
        algorithm = 8e-9 * size / spent
        found.append(
            {
                "bytes": size,
                "seconds": spent,
                "algorithm_gigabits_per_second": algorithm,
                "bus_gigabits_per_second": algorithm * bus_factor(world_size),
            }
        )
        if spent >= LONGEST_SECONDS:
            break
    return found


def _seconds(allreduce: Callable[[Tensor, str], Tensor], values: Tensor, times: int) -> float:
    """Mean time of one sum on this rank."""
    _wait(values.device)
    start = perf_counter()
    for _ in range(times):
        allreduce(values, f"verify.bandwidth.{len(values)}")
    _wait(values.device)
    return (perf_counter() - start) / times


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
