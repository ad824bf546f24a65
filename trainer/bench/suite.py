"""All benchmarks, one after the other."""

import json
import os
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from trainer.atomic import write_json
from trainer.bench import arms, matmul
from trainer.bench.allreduce import measure_allreduce
from trainer.bench.throughput import RATIOS, Throughput, measure_throughput
from trainer.bench.workload import Workload
from trainer.device import pick_device
from trainer.engines import DdpEngine, Engine, IndependentEngine, horovod
from trainer.errors import ConfigError
from trainer.models import all_models
from trainer.network import use_cluster_network
from trainer.world import gather_ranks, versions

# Settings that the figures depend on, as the environment has them.
SETTINGS = (
    *("HOROVOD_", "OMPI_MCA_", "UCX_", "NCCL_", "GLOO_", "MALLOC_", "OMP_NUM_THREADS"),
    horovod.NICE,
)


@dataclass(frozen=True)
class Suite:
    """What to measure.

    Attributes:
        batch_per_rank: images a rank sees in one step.
        dataset: directory of a prepared data set of 32 x 32 images in 10 classes.
        seconds: how long a turn of training shall take, about.
        bf16: whether to measure bf16 too. All ranks must say the same, so that it is decided where
            all processors are known: one that does not multiply bfloat16 is slower with it than
            with float32.
    """

    models: tuple[str, ...]
    batch_per_rank: int
    dataset: Path
    rounds: int
    seconds: float
    bf16: bool = False

    def __post_init__(self) -> None:
        for model in self.models:
            if model not in all_models():
                raise ConfigError(f"no model {model!r}; there are: {', '.join(all_models())}")
        if min(self.batch_per_rank, self.rounds) < 1 or self.seconds <= 0:
            raise ConfigError("batch, rounds and seconds must be above 0")


class Report:
    """What rank 0 tells of the benchmark while it goes on; other ranks say nothing.

    Args:
        path: file for the result, written anew with every part, so that a benchmark that is
            stopped keeps what it has; None writes none, as on all ranks but the first.
    """

    def __init__(self, suite: Suite, path: Path | None, common: dict[str, Any]) -> None:
        self._path = path
        self._result: dict[str, Any] = {**common, "throughput": {}}
        self._done, self._parts = 0, 2 + len(suite.models) * suite.rounds

    def begins(self, what: str) -> None:
        """Say what is measured next, in the log and, for who follows, in `metrics.jsonl`."""
        print(what, flush=True)
        if self._path is not None:
            line = {"event": "bench", "what": what, "done": self._done, "parts": self._parts}
            with self._path.with_name("metrics.jsonl").open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({**line, "time": time.time()}) + "\n")
        self._done += 1

    def keep(self, **part: Any) -> None:
        self._result |= part
        if self._path is not None:
            write_json(self._path, self._result)

    def keep_model(self, model: str, throughput: Throughput) -> None:
        """Add the throughput of a model to the result."""
        self.keep(throughput={**self._result["throughput"], model: throughput.to_json()})


def fewest_gpus(world: Engine) -> int:
    """How many GPUs the rank sees that sees the fewest; every rank must call it."""
    counts: list[int] = world.gather(torch.cuda.device_count())
    return min(counts)


def exchanges(device: torch.device, gpus: int, ranks: int) -> tuple[list[str], bool]:
    """What can exchange what ranks compute: backends of torch, and whether Horovod is among them.

    Open MPI as Debian has it reads no memory of GPUs. NCCL, which Horovod is built with for them,
    takes no two ranks on one.

    Args:
        gpus: on the host that has the fewest.
        ranks: on the host that has the most.
    """
    if device.type == "cpu":
        return ["gloo", *(["mpi"] if dist.is_mpi_available() else [])], True
    alone = ranks <= gpus
    return ["gloo", *(["nccl"] if alone else [])], alone


def measure(suite: Suite, path: Path | None) -> None:
    """Measure everything; rank 0 writes the result, and every rank says what is being done.

    Args:
        path: file for the result, or None:
            {"world_size", "device" ("cpu" or "cuda"), "hosts", "threads", "settings", "versions",
            "labels": {"arms": {name: label}, "ratios": {name: label}, "matmul": {name: label}},
            each in the order in which to show them,
            "efficiencies": {arm: name of the ratio that says what it reaches of the ideal},
            "matmul", "allreduce", "throughput": {model: ...}}, see the modules of this package.
    """
    use_cluster_network()
    # First of all: MPI ends with who started it, and Horovod comes and goes.
    world = IndependentEngine()
    ranks = gather_ranks(world)
    device = pick_device(world.local_rank)
    per_host = Counter(rank.host for rank in ranks).most_common(1)[0][1]
    backends, with_horovod = exchanges(device, fewest_gpus(world), per_host)
    ddp = {backend: DdpEngine(backend) for backend in backends}
    common = {
        "world_size": world.world_size,
        "device": device.type,
        "hosts": sorted({rank.host for rank in ranks}),
        "threads": torch.get_num_threads(),
        "settings": {k: v for k, v in sorted(os.environ.items()) if k.startswith(SETTINGS)},
        "versions": versions(),
        "labels": {
            "arms": dict(arms.LABELS),
            "ratios": {name: ratio.label for name, ratio in RATIOS.items()},
            "matmul": dict(matmul.LABELS),
        },
        "efficiencies": {
            arm: name
            for name, ratio in RATIOS.items()
            if ratio.is_efficiency
            for arm in ratio.above
        },
    }
    report = Report(suite, path if world.rank == 0 else None, common)
    report.begins("matrix products")
    report.keep(matmul=asdict(matmul.measure_matmul(world, suite.rounds)))
    report.begins("allreduce")
    times = measure_allreduce(world, ddp, suite.rounds, device, with_horovod)
    report.keep(allreduce=[asdict(time) for time in times])
    for model in suite.models:
        workload = Workload(model, suite.batch_per_rank, "fp32", suite.dataset, device)
        folder = None if path is None else path.parent
        # Emulated, it is slower than 32 bits, and says nothing about the GPU.
        bf16 = (
            torch.cuda.is_bf16_supported(including_emulation=False)
            if device.type == "cuda"
            else suite.bf16
        )
        arms_by_name = arms.make_arms(workload, world, ddp, bf16, folder, with_horovod)

        def round_begins(number: int, model: str = model) -> None:
            report.begins(f"training throughput of {model}, round {number} of {suite.rounds}")

        measured = measure_throughput(
            workload, arms_by_name, world, suite.rounds, suite.seconds, round_begins
        )
        report.keep_model(model, measured)
    print("done", flush=True)
