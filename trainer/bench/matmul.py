"""Matrix products: what a core computes, and what all of them compute together."""

import statistics
from time import perf_counter
from typing import Any

import torch
from mpi4py import MPI

from trainer.engines import Engine

SIZE = 1024


def measure_matmul(world: Engine, rounds: int, size: int = SIZE) -> dict[str, Any]:
    """Multiply square matrices in float32, with one rank, with all at once, and together.

    * `one_rank`: rank 0 alone
    * `all_ranks`: each rank a product of its own, all at once; per rank
    * `distributed`: one product: each rank multiplies its rows, and all gather the whole result

    Args:
        world: who the ranks are.
        rounds: repetitions, in turns.
        size: edge of the matrices.

    Returns:
        {"size", "gflops": {name: median}}, in 10^9 multiplications and additions a second.
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
    gflops: dict[str, list[float]] = {"one_rank": [], "all_ranks": [], "distributed": []}
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
    torch.testing.assert_close(product, left @ right)
    medians = {name: statistics.median(values) for name, values in gflops.items() if values}
    return {"size": size, "gflops": medians}


def _seconds(call: Any) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start
