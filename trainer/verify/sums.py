"""Whether an allreduce gives the right sum: the exact one, of every element, on every rank."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

# Horovod sums no bfloat16, and no whole numbers of 8 or 16 bits.
DTYPES = ("float32", "float64", "float16", "int32", "int64")
# One element, and numbers that no usual number of ranks divides, as the parts of a ring would be.
ELEMENTS = (1, 1023, 2**18 + 7)
# Elements are below this, so that the sum is exact in every type up to the next numbers of ranks.
BASE = 5
# Whole numbers up to this are exact in IEEE 754's half precision, with a significand of 11 bits.
EXACT = {"float16": 2**11}

Sum = Callable[[Tensor, str], Tensor]


@dataclass(frozen=True)
class SumCheck:
    """A sum over all ranks.

    Attributes:
        dtype: type of its elements, in torch's word.
        wrong: number of elements with another value than the exact one.
    """

    dtype: str
    elements: int
    wrong: int


def contribution(rank: int, elements: int) -> Tensor:
    """What a rank gives: numbers that differ by place and by rank, int64."""
    return (torch.arange(elements) + rank) % BASE


def expected_sum(world_size: int, elements: int) -> Tensor:
    """The sum over all ranks, computed here without the others, int64."""
    # The contributions repeat after BASE ranks.
    total = torch.zeros(elements, dtype=torch.int64)
    for rank in range(min(world_size, BASE)):
        times = len(range(rank, world_size, BASE))
        total += times * contribution(rank, elements)
    return total


def check_sums(
    allreduce: Sum,
    rank: int,
    world_size: int,
    device: torch.device,
    dtypes: tuple[str, ...] = DTYPES,
    sizes: tuple[int, ...] = ELEMENTS,
) -> list[SumCheck]:
    """Sum tensors of several types and sizes over all ranks, and compare every element.

    Args:
        allreduce: sums a tensor over all ranks, in place of none; the second is the name of it.

    Returns:
        A check for every type and size. Types in which the sum of so many ranks is not exact are
        left out.
    """
    checks = []
    for dtype in dtypes:
        if world_size * (BASE - 1) > EXACT.get(dtype, 2**24):
            continue
        for elements in sizes:
            values = contribution(rank, elements).to(device, getattr(torch, dtype))
            total = allreduce(values, f"verify.{dtype}.{elements}")
            wrong = total.cpu().to(torch.int64) != expected_sum(world_size, elements)
            checks.append(SumCheck(dtype, elements, int(wrong.sum())))
    return checks
