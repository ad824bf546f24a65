"""Training throughput of every arm, in turns, and the ratios that matter."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trainer.bench.arms import WARM_UP_STEPS, Arm, Ranks, Workload
from trainer.engines import Engine

# Steps in a turn, so that one of `independent` takes about the seconds asked for.
FEWEST_STEPS, MOST_STEPS = 3, 200

# What is compared with what; of several, with the best of the round.
RATIOS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "horovod_over_ideal": ("horovod", ("independent",)),
    "lockstep_over_ideal": ("lockstep", ("independent",)),
    "horovod_over_lockstep": ("horovod", ("lockstep",)),
    "ddp_gloo_over_ideal": ("ddp_gloo", ("independent",)),
    "ddp_mpi_over_ideal": ("ddp_mpi", ("independent",)),
    "ddp_torchrun_over_ideal": ("ddp_torchrun", ("independent",)),
    "horovod_over_best_ddp": ("horovod", ("ddp_gloo", "ddp_mpi", "ddp_torchrun")),
    "loop_over_minimal": ("one_rank", ("minimal",)),
    "real_over_synthetic": ("independent", ("synthetic",)),
    "bf16_over_fp32": ("bf16", ("independent",)),
}


@dataclass(frozen=True)
class Turn:
    """One turn of one arm.

    Attributes:
        round: the round it was in, from 1.
        arm: its name.
        seconds: time of the steps, by rank that worked.
        images_per_second: of all of them.
    """

    round: int
    arm: str
    seconds: tuple[float, ...]
    images_per_second: float


def measure_throughput(
    workload: Workload,
    arms: Mapping[str, Arm],
    world: Engine,
    rounds: int,
    seconds: float,
    round_begins: Callable[[int], None],
) -> dict[str, Any]:
    """Let all arms take turns, round after round.

    All run in the same processes on the same cores, so that whatever else the machine does meets
    all of them. Each round begins with another arm and every second goes backwards: a drift of
    the machine favours none, and none is always behind the same neighbour.

    Args:
        workload: what the arms train.
        arms: by name; `independent` must be among them. What its steps would have taken in
            lockstep is reported as `lockstep`.
        world: who the ranks are.
        rounds: turns of every arm.
        seconds: how long a turn of `independent` shall take, about.
        round_begins: called with the number of every round, from 1.

    Returns:
        {"model", "batch_per_rank", "precision", "steps", "turns": [fields of `Turn`, ...],
        "images_per_second": {arm: median}, "ratios": {name: median of the ratios in a round}}
    """
    world.barrier()
    step = arms["independent"].turn(0, 1)
    wanted = round(seconds / max(map(sum, world.gather(step))))
    steps = min(max(wanted, FEWEST_STEPS), MOST_STEPS)
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
    return {
        "model": workload.model,
        "batch_per_rank": workload.batch_per_rank,
        "precision": workload.precision,
        "steps": steps,
        "warm_up_steps": WARM_UP_STEPS,
        "turns": [asdict(turn) for turn in turns],
        **summarise(turns),
    }


def order(names: Sequence[str], number: int) -> list[str]:
    """The arms in the order of their turns in a round."""
    begin = (number - 1) % len(names)
    rotated = [*names[begin:], *names[:begin]]
    return rotated if number % 2 else rotated[::-1]


def images_per_second(ranks: Ranks, images: int, seconds: Sequence[float]) -> float:
    """Speeds of independent ranks add up; ranks that wait for each other are as fast as the last.

    Args:
        ranks: how they belong together.
        images: of one rank.
        seconds: by rank that worked.
    """
    if ranks == "together":
        return images * len(seconds) / max(seconds)
    return sum(images / spent for spent in seconds)


def lockstep_seconds(by_rank: Sequence[Sequence[float]]) -> float:
    """What the same steps take where every rank waits for the slowest after each of them.

    It is what no exchange of gradients, however fast, can do better than: where the machine holds
    up now one rank and now the other, ranks that need each other lose the time of both.

    Args:
        by_rank: seconds of every step of every rank, taken at the same time.
    """
    seconds: float = sum(map(max, zip(*by_rank, strict=True)))
    return seconds


def summarise(turns: Sequence[Turn]) -> dict[str, Any]:
    """Median speed of every arm, and medians of the ratios of arms in the same round."""
    speeds: dict[int, dict[str, float]] = {}
    for turn in turns:
        speeds.setdefault(turn.round, {})[turn.arm] = turn.images_per_second
    names = {turn.arm for turn in turns}
    ratios = {}
    for name, (above, below) in RATIOS.items():
        there = [arm for arm in below if arm in names]
        if above in names and there:
            ratios[name] = statistics.median(
                speed[above] / max(speed[arm] for arm in there) for speed in speeds.values()
            )
    return {
        "images_per_second": {
            name: statistics.median(speed[name] for speed in speeds.values())
            for name in sorted(names)
        },
        "ratios": ratios,
    }
