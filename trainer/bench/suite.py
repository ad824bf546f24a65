"""All benchmarks in one job."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from trainer.atomic import write_json
from trainer.bench.allreduce import measure_allreduce
from trainer.bench.arms import Workload, make_arms
from trainer.bench.matmul import measure_matmul
from trainer.bench.throughput import measure_throughput
from trainer.engines import DdpEngine, IndependentEngine, horovod
from trainer.errors import ConfigError
from trainer.models import MODELS
from trainer.network import use_cluster_network
from trainer.world import gather_ranks, versions

# Settings that the figures depend on, as the environment has them.
SETTINGS = ("HOROVOD_", "OMPI_MCA_", "UCX_", "NCCL_", "GLOO_", "OMP_NUM_THREADS", horovod.NICE)


@dataclass(frozen=True)
class Suite:
    """What to measure.

    Attributes:
        models: names from `trainer.models`.
        batch_per_rank: images a rank sees in one step.
        dataset: directory of a prepared data set of 32 x 32 images in 10 classes.
        rounds: turns of everything that is measured.
        seconds: how long a turn of training shall take, about.
    """

    models: tuple[str, ...]
    batch_per_rank: int
    dataset: Path
    rounds: int
    seconds: float

    def __post_init__(self) -> None:
        for model in self.models:
            if model not in MODELS:
                raise ConfigError(f"no model {model!r}; there are: {', '.join(MODELS)}")
        if min(self.batch_per_rank, self.rounds) < 1 or self.seconds <= 0:
            raise ConfigError("batch, rounds and seconds must be above 0")


class Report:
    """What rank 0 tells of the benchmark while it goes on; other ranks say nothing.

    Args:
        suite: what is measured.
        path: file for the result, written anew with every part, so that a benchmark that is
            stopped keeps what it has; None: rank 0 of no file, or another rank.
        common: what the result begins with.
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
        """Add a part to the result."""
        self._result |= part
        if self._path is not None:
            write_json(self._path, self._result)

    def keep_model(self, model: str, measured: dict[str, Any]) -> None:
        """Add the throughput of a model to the result."""
        self.keep(throughput={**self._result["throughput"], model: measured})


def measure(suite: Suite, path: Path | None) -> None:
    """Measure everything; rank 0 writes the result, and each rank says what is being done.

    Args:
        suite: what to measure.
        path: file for the result, or None:
            {"world_size", "hosts", "threads", "settings", "versions", "matmul", "allreduce",
            "throughput": {model: ...}}, see the modules of this package.
    """
    use_cluster_network()
    # First of all: MPI ends with who started it, and Horovod comes and goes.
    world = IndependentEngine()
    ranks = gather_ranks(world)
    ddp = {"gloo": DdpEngine("gloo"), "mpi": DdpEngine("mpi")}
    common = {
        "world_size": world.world_size,
        "hosts": sorted({rank.host for rank in ranks}),
        "threads": torch.get_num_threads(),
        "settings": {k: v for k, v in sorted(os.environ.items()) if k.startswith(SETTINGS)},
        "versions": versions(),
    }
    report = Report(suite, path if world.rank == 0 else None, common)
    report.begins("matrix products")
    report.keep(matmul=measure_matmul(world, suite.rounds))
    report.begins("allreduce")
    report.keep(allreduce=measure_allreduce(world, ddp, suite.rounds))
    for model in suite.models:
        workload = Workload(model, suite.batch_per_rank, "fp32", suite.dataset)
        arms = make_arms(workload, world, ddp, bf16=_multiplies_bf16())

        def round_begins(number: int, model: str = model) -> None:
            report.begins(f"training throughput of {model}, round {number} of {suite.rounds}")

        measured = measure_throughput(
            workload, arms, world, suite.rounds, suite.seconds, round_begins
        )
        report.keep_model(model, measured)
    print("done", flush=True)


def _multiplies_bf16() -> bool:
    """Whether the processor multiplies bfloat16; without, it is slower than float32."""
    flags: list[str] = []
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("flags"):
            flags = line.split()
            break
    return not {"avx512_bf16", "amx_bf16"}.isdisjoint(flags)
