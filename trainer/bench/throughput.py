"""Training throughput of every arm, in turns, and the ratios that matter."""

import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trainer.bench.arms import LABELS, WARM_UP_STEPS, Arm, Ranks
from trainer.bench.workload import Workload
from trainer.engines import Engine

# A checkpoint so often, in seconds, is what its cost is told for.
CHECKPOINT_EVERY = 30.0
# Steps in a turn, so that one of `independent` takes about the requested seconds.
FEWEST_STEPS, MOST_STEPS = 3, 200
DDP = ("ddp_gloo", "ddp_mpi", "ddp_nccl", "ddp_torchrun")


@dataclass(frozen=True)
class Ratio:
    """The speed of an arm over that of another one in the same round.

    Attributes:
        above: the arm; of several, the one whose ratio is the largest.
        below: what it is compared with, itself left out; of several, with the best of the round.
        is_efficiency: whether it is what an engine reaches of the same ranks without
            communication.
        every: the arm does something once in its turn; the ratio is what it would be if it did that
            once in so many seconds. None for what it does all the time.
    """

    label: str
    above: tuple[str, ...]
    below: tuple[str, ...]
    is_efficiency: bool = False
    every: float | None = None


def _efficiency(arm: str) -> Ratio:
    return Ratio(f"{LABELS[arm]} / no communication", (arm,), ("independent",), is_efficiency=True)


# In the order in which they are shown.
RATIOS: Mapping[str, Ratio] = {
    "horovod_over_ideal": _efficiency("horovod"),
    "horovod_optimizer_over_ideal": _efficiency("horovod_optimizer"),
    "ddp_mpi_over_ideal": _efficiency("ddp_mpi"),
    "ddp_gloo_over_ideal": _efficiency("ddp_gloo"),
    "ddp_nccl_over_ideal": _efficiency("ddp_nccl"),
    "ddp_torchrun_over_ideal": _efficiency("ddp_torchrun"),
    "lockstep_over_ideal": Ratio("in lockstep / no communication", ("lockstep",), ("independent",)),
    "horovod_over_lockstep": Ratio("Horovod / in lockstep", ("horovod",), ("lockstep",)),
    "horovod_over_best_ddp": Ratio("Horovod / best DDP of the round", ("horovod",), DDP),
    # What to compare that with: turns differ by chance, and the best of several had the luckiest.
    "ddp_over_best_other": Ratio("best DDP / best of the others", DDP, ("horovod", *DDP)),
    "checkpoint_over_none": Ratio(
        f"Horovod, a checkpoint every {CHECKPOINT_EVERY:.0f} s / none",
        ("horovod_checkpoint",),
        ("horovod",),
        every=CHECKPOINT_EVERY,
    ),
    "loop_over_minimal": Ratio("loop / raw loop", ("one_rank",), ("minimal",)),
    "real_over_synthetic": Ratio("real / synthetic data", ("independent",), ("synthetic",)),
    "bf16_over_fp32": Ratio("bf16 / fp32", ("bf16",), ("independent",)),
}


@dataclass(frozen=True)
class Turn:
    """One turn of one arm.

    Attributes:
        round: the round it was in, from 1.
        seconds: time of the steps, by rank that worked.
        images_per_second: of all of them.
    """

    round: int
    arm: str
    seconds: tuple[float, ...]
    images_per_second: float


@dataclass(frozen=True)
class Summary:
    """Results over all turns.

    Attributes:
        images_per_second: median of every arm's speeds, by arm.
        ratios: median of the ratios in a round, by name in `RATIOS`.
    """

    images_per_second: dict[str, float]
    ratios: dict[str, float]


@dataclass(frozen=True)
class Throughput:
    """The training throughput of a model; `turns` are in the order in which they were taken."""

    workload: Workload
    steps: int
    turns: tuple[Turn, ...]
    summary: Summary

    def to_json(self) -> dict[str, Any]:
        """As `bench.json` has it."""
        return {
            "model": self.workload.model,
            "batch_per_rank": self.workload.batch_per_rank,
            "precision": self.workload.precision,
            "steps": self.steps,
            "warm_up_steps": WARM_UP_STEPS,
            "turns": [asdict(turn) for turn in self.turns],
            **asdict(self.summary),
        }


def measure_throughput(
    workload: Workload,
    arms: Mapping[str, Arm],
    world: Engine,
    rounds: int,
    seconds: float,
    round_begins: Callable[[int], None],
) -> Throughput:
    """Let all arms take turns, round after round.

    All run in the same processes on the same cores, so that other load of the machine affects all
    of them alike. Each round begins with another arm and every second goes backwards: a drift of
    the machine favours none, and none is always behind the same neighbour.

    Args:
        arms: by name; `independent` must be among them. What its steps would have taken in
            lockstep is reported as `lockstep`.
        seconds: how long a turn of `independent` shall take, about.
        round_begins: called with the number of every round, from 1.
    """
    world.barrier()
    step = arms["independent"].turn(0, 1)
    fitting = round(seconds / max(map(sum, world.gather(step))))
    steps = min(max(fitting, FEWEST_STEPS), MOST_STEPS)
    images = workload.batch_per_rank * steps
    turns: list[Turn] = []
    for number in range(1, rounds + 1):
        round_begins(number)
        for name in order(list(arms), number):
            arm = arms[name]
            works = arm.ranks != "first" or world.rank == 0
            world.barrier()
            spent = arm.turn(number, steps) if works else None
            world.barrier()
            by_rank = [taken for taken in world.gather(spent) if taken is not None]
            reported = tuple(map(sum, by_rank))
            speed = images_per_second(arm.ranks, images, reported)
            turns.append(Turn(number, name, reported, speed))
            if name == "independent":
                together = lockstep_seconds(by_rank)
                speed = images_per_second("together", images, [together] * len(by_rank))
                turns.append(Turn(number, "lockstep", (together,), speed))
    return Throughput(workload, steps, tuple(turns), summarise(turns))


def order(names: Sequence[str], number: int) -> list[str]:
    """The arms in the order of their turns in a round."""
    begin = (number - 1) % len(names)
    rotated = [*names[begin:], *names[:begin]]
    return rotated if number % 2 else rotated[::-1]


def images_per_second(ranks: Ranks, images: int, seconds: Sequence[float]) -> float:
    """Speeds of independent ranks add up; ranks that wait for each other are as fast as the last.

    Args:
        seconds: by rank that worked.
    """
    if ranks == "together":
        return images * len(seconds) / max(seconds)
    return sum(images / spent for spent in seconds)


def lockstep_seconds(by_rank: Sequence[Sequence[float]]) -> float:
    """What the same steps take where every rank waits for the slowest after each of them.

    No exchange of gradients, however fast, can do better: where the machine delays one rank in one
    step and another rank in the next, ranks that wait for each other lose the time of both.

    Args:
        by_rank: seconds of every step of every rank, taken at the same time.
    """
    seconds: float = sum(map(max, zip(*by_rank, strict=True)))
    return seconds


def summarise(turns: Sequence[Turn]) -> Summary:
    """Median speed of every arm, and medians of the ratios of arms in the same round."""
    rounds: dict[int, dict[str, Turn]] = {}
    for turn in turns:
        rounds.setdefault(turn.round, {})[turn.arm] = turn
    names = {turn.arm for turn in turns}
    ratios = {}
    for name, ratio in RATIOS.items():
        measured = [
            statistics.median(_ratio(*pair, ratio.every) for pair in pairs)
            for above in ratio.above
            if (pairs := _pairs(rounds.values(), above, names.intersection(ratio.below) - {above}))
        ]
        if measured:
            ratios[name] = max(measured)
    medians = {
        name: statistics.median(by_arm[name].images_per_second for by_arm in rounds.values())
        for name in sorted(names)
    }
    return Summary(medians, ratios)


def _pairs(
    rounds: Iterable[Mapping[str, Turn]], above: str, below: Collection[str]
) -> list[tuple[Turn, Turn]]:
    """The turn of an arm in each round, with the fastest of the turns that it is compared with."""
    if not below:
        return []
    return [
        (turns[above], max((turns[arm] for arm in below), key=lambda turn: turn.images_per_second))
        for turns in rounds
        if above in turns
    ]


def _ratio(above: Turn, below: Turn, every: float | None) -> float:
    """The speed of a turn over that of another one of as many steps; see `Ratio.every`."""
    if every is None:
        return above.images_per_second / below.images_per_second
    return every / (every + max(above.seconds) - max(below.seconds))
