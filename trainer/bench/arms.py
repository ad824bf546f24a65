"""The arms of the throughput benchmark: ways to train one model on the same images."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice, repeat
from pathlib import Path
from time import perf_counter
from typing import Literal, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from trainer.bench.horovod_optimizer import HorovodOptimizerEngine
from trainer.bench.workload import SEED, Workload, fresh_model, read_batches
from trainer.checkpointing import Checkpointer
from trainer.config import TrainConfig
from trainer.device import Marks, wait_for
from trainer.engines import DdpEngine, Engine, HorovodEngine, tuning
from trainer.learner import Learner
from trainer.network import cluster_address, listen
from trainer.optimizer import adamw
from trainer.progress import Progress
from trainer.step import TrainStep

# The arms of the throughput benchmark in the order in which they are shown, with their labels.
# `lockstep` is no arm of its own: it follows from the times of `independent`.
LABELS: Mapping[str, str] = {
    "one_rank": "one rank",
    "minimal": "one rank, raw loop",
    "independent": "all ranks, no communication",
    "lockstep": "the same, each step waiting for the slowest rank",
    "synthetic": "all ranks, no communication, synthetic data",
    "bf16": "all ranks, no communication, bf16",
    "horovod": "Horovod",
    "horovod_checkpoint": "Horovod, a checkpoint in each turn",
    "horovod_optimizer": "Horovod, its own optimizer",
    "ddp_mpi": "DDP, MPI",
    "ddp_gloo": "DDP, Gloo",
    "ddp_nccl": "DDP, NCCL",
    "ddp_torchrun": "DDP, torchrun",
}
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 0.05
# Untimed steps at the start of a turn: Horovod negotiates each tensor once before it remembers.
WARM_UP_STEPS = 2

# How the ranks of an arm belong together, which decides how their speeds add up.
Ranks = Literal["first", "independent", "together"]
Batches = Iterator[tuple[Tensor, Tensor]]


class Arm(Protocol):
    """One way to train.

    Attributes:
        ranks: "first" when rank 0 works and the others rest, "independent" when all work and none
            waits for another, "together" when they exchange gradients.
    """

    ranks: Ranks

    def turn(self, number: int, steps: int) -> list[float]:
        """Take the warm-up steps, then `steps` timed ones, and return the seconds of these.

        Every rank that works must call it.
        """
        ...


def timed(step: Callable[[], object], steps: int, device: torch.device) -> list[float]:
    """Call `step` for the warm-up, then `steps` times more, and return the seconds of these."""
    for _ in range(WARM_UP_STEPS):
        step()
    marks = Marks(device)
    marks.set()
    for _ in range(steps):
        step()
        marks.set()
    return marks.seconds()


class LoopArm:
    """This package's own loop, with or without an engine that exchanges gradients.

    Args:
        leave: whether to close the engine after every turn. Horovod's background thread would
            take part of the core from the arms that have their turn meanwhile.
        settling: steps before the first turn, in which the engine finds out how to go on best.
    """

    def __init__(
        self,
        workload: Workload,
        batches: Callable[[int], Batches],
        ranks: Ranks,
        join: Callable[[], Engine] | None = None,
        leave: bool = False,
        settling: int = 0,
    ) -> None:
        self.ranks = ranks
        self._batches, self._join, self._leave = batches, join, leave
        self._settling = settling
        self._device = workload.device
        model = fresh_model(workload)
        self._step = TrainStep(model, adamw(model, LEARNING_RATE, WEIGHT_DECAY), workload.precision)
        self._is_distributed = False

    def turn(self, number: int, steps: int) -> list[float]:
        engine = self._join() if self._join else None
        if engine is not None and not self._is_distributed:
            model, optimizer = engine.distribute(self._step.model, self._step.optimizer)
            self._step = TrainStep(model, optimizer, self._step.precision, exchange=engine)
            self._is_distributed = True
        if self._settling:
            for batch in islice(self._batches(0), self._settling):
                self._step(*batch, LEARNING_RATE)
            self._settling = 0
        batches = self._batches(number)
        seconds = self._timed(engine, lambda: self._step(*next(batches), LEARNING_RATE), steps)
        if engine is not None and self._leave:
            engine.close()
        return seconds

    def _timed(self, engine: Engine | None, step: Callable[[], object], steps: int) -> list[float]:
        return timed(step, steps, self._device)


class CheckpointArm(LoopArm):
    """The loop with Horovod, and with a checkpoint in each turn, as a run takes it.

    It is taken after the warm-up and written while the steps go on. The turn ends when it is on the
    disk. Copies to another node are no part of it.

    Args:
        folder: where it is written, and removed again; None is that of temporary files.
    """

    def __init__(
        self, workload: Workload, batches: Callable[[int], Batches], folder: Path | None
    ) -> None:
        super().__init__(
            workload, batches, "together", HorovodEngine, leave=True, settling=tuning.STEPS
        )
        self._workload, self._folder = workload, folder

    def _timed(self, engine: Engine | None, step: Callable[[], object], steps: int) -> list[float]:
        assert engine is not None
        for _ in range(WARM_UP_STEPS):
            step()
        # Nothing that begins with a dot goes home from a run.
        with tempfile.TemporaryDirectory(prefix=".bench-", dir=self._folder) as scratch:
            config = _configuration(self._workload, engine, scratch)
            learner = Learner(self._step.model, None, self._step)
            wait_for(self._device)
            begin = perf_counter()
            with Checkpointer(config, engine, learner, {}, best_accuracy=-1.0) as checkpointer:
                checkpointer.save(Progress(), accuracy=0.0, loss=0.0)
                for _ in range(steps):
                    step()
            wait_for(self._device)
            return [perf_counter() - begin]


def _configuration(workload: Workload, engine: Engine, run_dir: str) -> TrainConfig:
    return TrainConfig(
        model=workload.model,
        dataset=workload.dataset.name,
        data_dir=str(workload.dataset.parent),
        run_dir=run_dir,
        engine="horovod",
        precision=workload.precision,
        epochs=1,
        batch_per_rank=workload.batch_per_rank,
        learning_rate=LEARNING_RATE,
        weight_decay=WEIGHT_DECAY,
        warmup_fraction=0.0,
        label_smoothing=0.0,
        train_images=None,
        seed=SEED,
        log_every_steps=1,
        world_size=engine.world_size,
        hosts=tuple(dict.fromkeys(engine.gather(socket.gethostname()))),
    )


class MinimalArm:
    """The minimum: PyTorch alone, on a ready batch, without logs or timing of parts."""

    ranks: Ranks = "first"

    def __init__(self, workload: Workload, batch: tuple[Tensor, Tensor]) -> None:
        self._images, self._labels = batch
        self._device = workload.device
        self._model = fresh_model(workload)
        self._optimizer = adamw(self._model, LEARNING_RATE, WEIGHT_DECAY)

    def turn(self, number: int, steps: int) -> list[float]:
        return timed(self._advance, steps, self._device)

    def _advance(self) -> None:
        self._optimizer.zero_grad()
        functional.cross_entropy(self._model(self._images), self._labels).backward()
        self._optimizer.step()


class TorchrunArm:
    """DistributedDataParallel over Gloo in processes that torchrun starts, anew for every turn."""

    ranks: Ranks = "together"

    def __init__(self, workload: Workload, world: Engine) -> None:
        self._workload, self._world = workload, world

    def turn(self, number: int, steps: int) -> list[float]:
        with listen(cluster_address()) as free:
            host, port = self._world.gather(free.getsockname()[:2])[0]
        with tempfile.TemporaryDirectory(prefix="torchrun-") as scratch:
            result = Path(scratch, "seconds.json")
            command = [sys.executable, "-m", "trainer.bench.torchrun"]
            command += ["--nnodes", str(self._world.world_size), "--nproc-per-node", "1"]
            command += ["--node-rank", str(self._world.rank)]
            command += ["--master-addr", host, "--master-port", str(port)]
            command += ["--module", "trainer", "bench", "turn", "--json", str(result)]
            command += ["--model", self._workload.model, "--steps", str(steps)]
            command += ["--batch", str(self._workload.batch_per_rank)]
            command += ["--precision", self._workload.precision, "--number", str(number)]
            command += ["--dataset", str(self._workload.dataset)]
            # Without what mpirun has set: these are other processes in a world of their own.
            ours = ("OMPI_", "PMIX_", "PRTE_")
            environment = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
            subprocess.run(command, env=environment, check=True)
            seconds: list[float] = json.loads(result.read_text())
            return seconds


def torchrun_turn(workload: Workload, number: int, steps: int, result: Path) -> None:
    """What torchrun starts: one turn of DistributedDataParallel over Gloo."""
    engine = DdpEngine("gloo")
    batches = read_batches(workload, engine.rank, engine.world_size)
    # Without a name, so that the model is gone before its group.
    seconds = LoopArm(workload, batches.epoch, "together", lambda: engine).turn(number, steps)
    result.write_text(json.dumps(seconds))
    engine.close()


def _same(engine: Engine) -> Engine:
    return engine


def make_arms(
    workload: Workload,
    world: Engine,
    ddp: Mapping[str, Engine],
    bf16: bool,
    folder: Path | None = None,
    with_horovod: bool = True,
) -> dict[str, Arm]:
    """All arms by name.

    * `one_rank`: one rank alone
    * `minimal`: a raw loop on a batch that is ready, one rank alone
    * `independent`: every rank for itself: what training together would reach if communication
      cost nothing
    * `synthetic`: the same on a batch that is ready, instead of real images with augmentation
    * `horovod`, `ddp_gloo`, `ddp_mpi`, `ddp_nccl`: engines, under mpirun
    * `horovod_checkpoint`: Horovod, with a checkpoint in each turn
    * `horovod_optimizer`: Horovod as its documentation has it, for comparison
    * `ddp_torchrun`: DistributedDataParallel over Gloo as torchrun starts it; on processors, for
      there each of its ranks would be the first of its host and take the first GPU
    * `bf16`: `independent` in bf16, where the processor or the GPU multiplies that

    Args:
        with_horovod: whether Horovod can exchange what the ranks compute.
        folder: where checkpoints are written; None is that of temporary files.
    """
    batches = read_batches(workload, world.rank, world.world_size)
    ready = next(batches.epoch(1))
    arms: dict[str, Arm] = {
        "one_rank": LoopArm(workload, batches.epoch, "first"),
        "minimal": MinimalArm(workload, ready),
        "independent": LoopArm(workload, batches.epoch, "independent"),
        "synthetic": LoopArm(workload, lambda _: repeat(ready), "independent"),
    }
    if with_horovod:
        arms["horovod"] = LoopArm(
            workload,
            batches.epoch,
            "together",
            HorovodEngine,
            leave=True,
            settling=tuning.STEPS,
        )
        arms["horovod_checkpoint"] = CheckpointArm(workload, batches.epoch, folder)
        arms["horovod_optimizer"] = LoopArm(
            workload, batches.epoch, "together", HorovodOptimizerEngine, leave=True
        )
    for backend, engine in ddp.items():
        join = partial(_same, engine)
        arms[f"ddp_{backend}"] = LoopArm(workload, batches.epoch, "together", join)
    if workload.device.type == "cpu":
        arms["ddp_torchrun"] = TorchrunArm(workload, world)
    if bf16:
        halved = replace(workload, precision="bf16")
        arms["bf16"] = LoopArm(halved, batches.epoch, "independent")
    return arms
