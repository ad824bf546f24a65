"""Benchmarks that run under mpirun, every rank in step."""

import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from trainer.atomic import write_json
from trainer.data.augment import Normalise
from trainer.data.memory import ImageSet, TrainingBatches
from trainer.data.sampler import ShardedSampler
from trainer.engine import Engine, HorovodEngine, IndependentEngine
from trainer.errors import ConfigError
from trainer.models import MODELS, build_model
from trainer.optimizer import adamw
from trainer.step import TrainStep
from trainer.world import gather_ranks, versions

CLASSES = 10
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 0.05
SEED = 1
# Untimed steps at the start of a round: Horovod negotiates each tensor once before it remembers.
WARM_UP_STEPS = 2


@dataclass(frozen=True)
class Throughput:
    """What to measure.

    Attributes:
        model: a name from `trainer.models`.
        batch_per_rank: images a rank sees in one step.
        precision: "fp32" or "bf16".
        steps: timed steps in a round.
        rounds: rounds of each engine.
    """

    model: str
    batch_per_rank: int
    precision: str
    steps: int
    rounds: int

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise ConfigError(f"no model {self.model!r}; there are: {', '.join(sorted(MODELS))}")
        if min(self.batch_per_rank, self.steps, self.rounds) < 1:
            raise ConfigError("batch, steps and rounds must be at least 1")


@dataclass(frozen=True)
class Round:
    """One round of one engine.

    Attributes:
        round: its number, from 1.
        engine: its name.
        seconds: time of the steps, by rank.
        images_per_second: of the whole world.
    """

    round: int
    engine: str
    seconds: tuple[float, ...]
    images_per_second: float


def measure_throughput(wanted: Throughput, path: Path | None) -> None:
    """Compare training with Horovod to training without communication, which is the ideal.

    Both run in the same processes on the same cores, in turns, so that whatever else the machine
    does meets both. During a round without communication Horovod is shut down, background thread
    and all; MPI itself stays, held by the independent engine, for the barriers between rounds.

    Rank 0 prints a table and writes the result:

        {"model", "precision", "batch_per_rank", "steps", "world_size", "hosts", "versions",
         "rounds": [{"round", "engine", "seconds": [by rank], "images_per_second"}, ...],
         "images_per_second": {"independent": median, "horovod": median},
         "ratio": median over the rounds of horovod / independent}

    Args:
        wanted: what to measure.
        path: file for the result, or None.
    """
    world = IndependentEngine()
    ranks = gather_ranks(world)
    arms = {"independent": _Arm(wanted, world), "horovod": _Arm(wanted, world)}
    horovod = HorovodEngine()
    arms["horovod"].distribute(horovod)
    horovod.close()

    rounds: list[Round] = []
    for number in range(1, wanted.rounds + 1):
        # Turns alternate as well: ABBAABBA, so that a drift of the machine favours neither.
        for name in sorted(arms, reverse=number % 2 == 0):
            if name == "horovod":
                horovod = HorovodEngine()
            seconds = arms[name].run(wanted.steps, world)
            if name == "horovod":
                horovod.close()
            rounds.append(_round(number, name, seconds, wanted))
    if world.rank > 0:
        return
    result = {
        **asdict(wanted),
        "world_size": world.world_size,
        "hosts": sorted({rank.host for rank in ranks}),
        "versions": versions(),
        **summarise(rounds),
    }
    print(_table(rounds, result), flush=True)
    if path is not None:
        write_json(path, result)


def summarise(rounds: list[Round]) -> dict[str, Any]:
    """Medians of both engines, and the median of the ratios of the two in the same round."""
    speeds: dict[str, list[float]] = {"independent": [], "horovod": []}
    for entry in sorted(rounds, key=lambda entry: entry.round):
        speeds[entry.engine].append(entry.images_per_second)
    pairs = zip(speeds["horovod"], speeds["independent"], strict=True)
    return {
        "rounds": [asdict(entry) for entry in rounds],
        "images_per_second": {name: statistics.median(values) for name, values in speeds.items()},
        "ratio": statistics.median(horovod / independent for horovod, independent in pairs),
    }


class _Arm:
    """A model in training on images of noise; the speed does not depend on what they show."""

    def __init__(self, wanted: Throughput, world: Engine) -> None:
        torch.manual_seed(SEED)
        edge = MODELS[wanted.model].image_size
        count = wanted.batch_per_rank * world.world_size * (WARM_UP_STEPS + wanted.steps)
        data = ImageSet(
            torch.randint(0, 256, (count, 3, edge, edge), dtype=torch.uint8),
            torch.randint(0, CLASSES, (count,)),
        )
        sampler = ShardedSampler(count, wanted.batch_per_rank, world.rank, world.world_size, SEED)
        self._batches = TrainingBatches(data, sampler, Normalise((0.5,) * 3, (0.25,) * 3))
        model = build_model(wanted.model, CLASSES, edge)
        self._step = TrainStep(model, adamw(model, LEARNING_RATE, WEIGHT_DECAY), wanted.precision)
        self._epoch = 0

    def distribute(self, engine: Engine) -> None:
        """Let an engine exchange the gradients from now on, whenever it is up."""
        model, optimizer = engine.distribute(self._step.model, self._step.optimizer)
        self._step = TrainStep(model, optimizer, self._step.precision, exchange=engine)

    def run(self, steps: int, world: Engine) -> tuple[float, ...]:
        """Time a round, from batch to update, and return the seconds by rank."""
        self._epoch += 1
        batches = self._batches.epoch(self._epoch)
        world.barrier()
        self._advance(batches, WARM_UP_STEPS)
        start = perf_counter()
        self._advance(batches, steps)
        seconds = perf_counter() - start
        return tuple(world.gather(seconds))

    def _advance(self, batches: Iterator[tuple[Tensor, Tensor]], steps: int) -> None:
        for _ in range(steps):
            self._step(*next(batches), LEARNING_RATE)


def _round(number: int, engine: str, seconds: tuple[float, ...], wanted: Throughput) -> Round:
    """Speeds of independent ranks add up; ranks that exchange gradients are as fast as the last."""
    images = wanted.batch_per_rank * wanted.steps
    if engine == "independent":
        speed = sum(images / spent for spent in seconds)
    else:
        speed = images * len(seconds) / max(seconds)
    return Round(number, engine, seconds, speed)


def _table(rounds: list[Round], result: dict[str, Any]) -> str:
    speeds = {(entry.round, entry.engine): entry.images_per_second for entry in rounds}
    lines = ["round  independent  horovod  ratio   (images per second, all ranks)"]
    for number in sorted({entry.round for entry in rounds}):
        ideal, real = speeds[number, "independent"], speeds[number, "horovod"]
        lines.append(f"{number:5}  {ideal:11.1f}  {real:7.1f}  {real / ideal:5.3f}")
    ideal, real = (result["images_per_second"][name] for name in ("independent", "horovod"))
    lines.append(f"median {ideal:11.1f}  {real:7.1f}  {result['ratio']:5.3f}")
    return "\n".join(lines)
