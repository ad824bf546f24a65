"""What every rank does: it checks, measures, and writes the results into a file of its own."""

import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainer.atomic import write_json
from trainer.device import find_device
from trainer.network import use_cluster_network
from trainer.verify.bandwidth import Bandwidth, measure_bandwidth
from trainer.verify.products import Product, measure_products, own_gpus
from trainer.verify.sums import SumCheck, check_sums


@dataclass
class RankResult:
    """What a rank has come to; a part that it has not done yet is None.

    Attributes:
        gpu_trouble: why it computes on the CPU although GPUs were given; empty where none were,
            or where they compute.
        sums, products, bandwidth: as the modules beside this one return them.
    """

    rank: int
    host: str
    world_size: int
    gpu_trouble: str = ""
    sums: list[SumCheck] | None = None
    products: list[Product] | None = None
    bandwidth: list[Bandwidth] | None = None

    def to_json(self) -> dict[str, Any]:
        """The parts that are done, as plain JSON values."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def verify(directory: Path) -> None:
    """Check sums, then measure GPUs and bandwidth; every rank calls this.

    `<directory>/rank-<r>.json`, a `RankResult`, is written anew after each part, so that of a rank
    that hangs it is known how far it came.

    Raises:
        ClusterAddressError: this machine has no address on the training network.
    """
    import horovod.torch as hvd

    # As in a run: what is measured on another network says nothing about runs.
    use_cluster_network()
    hvd.init()
    rank, world_size = hvd.rank(), hvd.size()
    device, trouble = find_device(hvd.local_rank())
    result = RankResult(rank, socket.gethostname(), world_size, gpu_trouble=trouble)
    path = directory / f"rank-{rank}.json"

    def total(values: Tensor, name: str) -> Tensor:
        result: Tensor = hvd.allreduce(values, op=hvd.Sum, name=name)
        return result

    def total_in_place(values: Tensor, name: str) -> Tensor:
        result: Tensor = hvd.allreduce_(values, op=hvd.Sum, name=name)
        return result

    def slowest(seconds: float) -> float:
        values = torch.tensor([seconds], dtype=torch.float64)
        return float(hvd.allreduce(values, op=hvd.Max, name="verify.slowest"))

    write_json(path, result.to_json())
    result.sums = check_sums(total, rank, world_size, device)
    write_json(path, result.to_json())
    gpus = [] if trouble else own_gpus(hvd.local_rank(), hvd.local_size())
    result.products = measure_products(gpus)
    write_json(path, result.to_json())
    result.bandwidth = measure_bandwidth(total_in_place, slowest, world_size, device)
    write_json(path, result.to_json())
    hvd.shutdown()
