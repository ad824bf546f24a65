"""How long a sum over all ranks takes, by its size and by who computes it."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.bench.workload import CPU
from trainer.device import wait_for
from trainer.engines import DdpEngine, Engine, HorovodEngine
from trainer.verify.bandwidth import SIZES, bus_factor

# A turn moves about this much, and at least and at most so many sums.
TURN_BYTES = 2**27
FEWEST, MOST = 2, 50


@dataclass(frozen=True)
class AllreduceTime:
    """How long a sum takes.

    Attributes:
        engine: who computes it, an arm of the throughput benchmark.
        seconds: median of one sum.
        gigabytes_per_second: bus bandwidth, see `trainer.verify.bandwidth.bus_factor`.
    """

    engine: str
    bytes: int
    seconds: float
    gigabytes_per_second: float


def measure_allreduce(
    world: Engine,
    ddp: Mapping[str, DdpEngine],
    rounds: int,
    device: torch.device = CPU,
    with_horovod: bool = True,
    sizes: tuple[int, ...] = SIZES,
) -> list[AllreduceTime]:
    """Sum float32 tensors over all ranks with Horovod, Gloo, MPI and NCCL, in turns.

    Args:
        sizes: in bytes.
    """
    seconds: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        engines = ("horovod",) if with_horovod else ()
        for name in (*engines, *(f"ddp_{backend}" for backend in ddp)):
            world.barrier()
            horovod = HorovodEngine() if name == "horovod" else None
            reduce = _horovod if horovod else _torch(ddp[name.removeprefix("ddp_")])
            for size in sizes:
                values = torch.ones(size // 4, device=device)
                reduce(values)
                times = min(max(TURN_BYTES // size, FEWEST), MOST)
                wait_for(device)
                start = perf_counter()
                for _ in range(times):
                    reduce(values)
                wait_for(device)
                spent = (perf_counter() - start) / times
                seconds.setdefault((name, size), []).append(spent)
            if horovod is not None:
                horovod.close()
    factor = bus_factor(world.world_size)
    return [
        AllreduceTime(
            engine=name,
            bytes=size,
            seconds=statistics.median(spent),
            gigabytes_per_second=factor * size / statistics.median(spent) / 1e9,
        )
        for (name, size), spent in seconds.items()
    ]


def _horovod(values: Tensor) -> None:
    import horovod.torch as hvd

    hvd.allreduce_(values, op=hvd.Average, name=f"bench.{len(values)}")


def _torch(engine: DdpEngine) -> Callable[[Tensor], None]:
    def reduce(values: Tensor) -> None:
        dist.all_reduce(values, group=engine.group)
        values /= engine.world_size

    return reduce
