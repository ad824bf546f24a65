"""Speed of matrix products: of one core, and of all cores together."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter

import torch
from mpi4py import MPI

from trainer.engines import Engine

SIZE = 1024
# The ways to multiply in the order in which they are shown, with their labels.
LABELS: Mapping[str, str] = {
    "one_rank": "one rank alone",
    "all_ranks": "each rank, all at once",
    "distributed": "one product, all ranks together",
}


@dataclass(frozen=True)
class Matmul:
    """Results of the matrix products.

    Attributes:
        gflops: medians in 10^9 multiplications and additions a second, by the keys of `LABELS`.
    """

    size: int
    gflops: dict[str, float]


def measure_matmul(world: Engine, rounds: int, size: int = SIZE) -> Matmul:
    """Multiply square matrices in float32, with one rank, with all at once, and together.

    * `one_rank`: rank 0 alone
    * `all_ranks`: every rank a product of its own, all at once; per rank
    * `distributed`: one product: every rank multiplies its rows, and all gather the whole result
    """
    torch.manual_seed(1)
    left, right = torch.randn(size, size), torch.randn(size, size)
    rows = left.tensor_split(world.world_size)[world.rank].contiguous()
    counts = [len(part) * size for part in left.tensor_split(world.world_size)]
    product = torch.empty(size, size)

    def distributed() -> None:
        part = rows @ right
        MPI.COMM_WORLD.Allgatherv(part.numpy(), (product.numpy(), counts))

    def alone() -> None:
        torch.mm(left, right, out=product)

    work = 2 * size**3 / 1e9
    gflops: dict[str, list[float]] = {name: [] for name in LABELS}
    alone()
    distributed()
    for _ in range(rounds):
        world.barrier()
        if world.rank == 0:
            gflops["one_rank"].append(work / _seconds(alone))
        world.barrier()
        spent = world.gather(_seconds(alone))
        gflops["all_ranks"].append(statistics.mean(work / seconds for seconds in spent))
        world.barrier()
        spent = world.gather(_seconds(distributed))
        gflops["distributed"].append(work / max(spent))
    # A library may add up a part of the rows in another order than all of them, which rounds
    # otherwise. A wrong product is off by the root of its size.
    rounding = 8 * size * torch.finfo(product.dtype).eps
    torch.testing.assert_close(product, left @ right, rtol=0, atol=rounding)
    medians = {name: statistics.median(values) for name, values in gflops.items() if values}
    return Matmul(size, medians)


def _seconds(call: Callable[[], None]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start
