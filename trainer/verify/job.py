"""The job of all ranks: each writes what it found into a file of its own."""

import socket
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainer.atomic import write_json
from trainer.device import pick_device
from trainer.verify.bandwidth import measure_bandwidth
from trainer.verify.products import measure_products, own_gpus
from trainer.verify.sums import check_sums


def verify(directory: Path) -> None:
    """Check sums, then measure GPUs and bandwidth; every rank of a job calls this.

    `<directory>/rank-<r>.json` is written anew after each part, so that of a rank that hangs it
    is known how far it came: `rank`, `host`, `world_size`, and then `sums`, `products`,
    `bandwidth` as the modules beside this one return them.
    """
    import horovod.torch as hvd

    hvd.init()
    rank, world_size = hvd.rank(), hvd.size()
    device = pick_device(hvd.local_rank())
    told: dict[str, Any] = {"rank": rank, "host": socket.gethostname(), "world_size": world_size}
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

    write_json(path, told)
    told["sums"] = check_sums(total, rank, world_size, device)
    write_json(path, told)
    told["products"] = measure_products(own_gpus(hvd.local_rank(), hvd.local_size()))
    write_json(path, told)
    told["bandwidth"] = measure_bandwidth(total_in_place, slowest, world_size, device)
    write_json(path, told)
    hvd.shutdown()
