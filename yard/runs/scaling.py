"""What several nodes bring over one: runs on one node and on several compared."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from yard.core.words import percent, plural
from yard.request.training import RANK_BATCH, Training
from yard.runs.metrics import of_event
from yard.runs.record import read_run
from yard.runs.summary import read_summary

# What the guides that this project follows measured on one machine and on two, in seconds.
GUIDES_SECONDS = (57 * 60 + 32, 31 * 60 + 18)
# How often each is trained unless the request says otherwise: two rounds show what is chance.
ROUNDS = 2
# An efficiency a little above 1 may be chance; further nodes cannot bring more than this.
MOST_EFFICIENT = 1.05
# Where the rounds are further apart than this share of their median, something else was measured.
MOST_APART = 0.1


@dataclass(frozen=True)
class ScalingRun:
    """One of the runs.

    Attributes:
        nodes, world_size: machines, and ranks on all of them.
        batch_per_rank, global_batch: images of a rank, and of all ranks, in one step.
        images_per_second: of all ranks, without evaluation and the first steps.
        training_seconds: from the first step's beginning to the last checkpoint, evaluation
            included.
        seconds_total: from the command to the last file collected.
    """

    run_id: str
    nodes: int
    world_size: int
    batch_per_rank: int
    global_batch: int
    learning_rate: float
    epochs: int
    steps: int
    images_per_second: float
    training_seconds: float
    seconds_total: float | None
    test_accuracy: float | None
    final_loss: float | None


@dataclass(frozen=True)
class Gain:
    """How much faster several nodes are: times the speed of one, and the share of the ideal."""

    speed_up: float
    efficiency: float


@dataclass(frozen=True)
class Scaling:
    """The result.

    Attributes:
        held: what was the same on both, in words.
        one, many: the runs on one node and on several: the first ones, with the medians of all
            rounds as rate and time to train.
        rounds: images per second in each round, on one node and on several.
        doubts: what speaks against the numbers, a sentence each.
        throughput: gain in images per second: the training alone.
        training: gain in time to train: with evaluation, as the guides measured it.
    """

    scaling_id: str
    model: str
    dataset: str
    held: str
    one: ScalingRun
    many: ScalingRun
    throughput: Gain
    training: Gain
    rounds: tuple[tuple[float, float], ...]
    doubts: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        guides = {"nodes": 2, "seconds": GUIDES_SECONDS, **asdict(guides_gain())}
        return {**asdict(self), "guides": guides}


def compare(
    scaling_id: str,
    training: Training,
    hold: str,
    ones: Sequence[ScalingRun],
    manys: Sequence[ScalingRun],
) -> Scaling:
    """What the further nodes brought.

    Args:
        ones, manys: the runs on one node and on several, by round.
    """
    one, many = _median(ones), _median(manys)
    common = f"model, images, {plural(training.epochs, 'epoch')}"
    if one.learning_rate == many.learning_rate:
        common += f", learning rate {one.learning_rate:g}"
    if hold == RANK_BATCH:
        held = (
            f"{common}, {one.batch_per_rank} images per rank and step. The global batch grows with "
            f"the nodes, from {one.global_batch} to {many.global_batch}; the steps get fewer."
        )
    else:
        held = (
            f"{common}, {one.global_batch} images a step of all ranks. "
            f"The batch of a rank shrinks, from {one.batch_per_rank} to {many.batch_per_rank}."
        )
    nodes = many.nodes / one.nodes
    throughput = gain(many.images_per_second / one.images_per_second, nodes)
    time_to_train = gain(one.training_seconds / many.training_seconds, nodes)
    rounds = [
        (first.images_per_second, second.images_per_second)
        for first, second in zip(ones, manys, strict=True)
    ]
    return Scaling(
        scaling_id,
        training.model,
        training.dataset,
        held,
        one,
        many,
        throughput,
        time_to_train,
        tuple(rounds),
        tuple(_doubts(throughput, time_to_train, many.nodes, rounds)),
    )


def _median(runs: Sequence[ScalingRun]) -> ScalingRun:
    """The first run with the medians of all as rate and time to train."""
    return replace(
        runs[0],
        images_per_second=statistics.median(run.images_per_second for run in runs),
        training_seconds=statistics.median(run.training_seconds for run in runs),
    )


def _doubts(
    throughput: Gain, time_to_train: Gain, nodes: int, rounds: Sequence[tuple[float, float]]
) -> Iterator[str]:
    highest = max(throughput.efficiency, time_to_train.efficiency)
    if highest > MOST_EFFICIENT:
        yield (
            f"An efficiency of {percent(highest)} cannot be: {nodes} nodes bring {nodes} times the "
            "speed at the most. The runs on one node were slowed down, by other work there or by a "
            "rate that had not settled: measure with ROUNDS=5 and more images, on idle nodes."
        )
    for which, rates in zip(("one node", f"{nodes} nodes"), zip(*rounds, strict=True), strict=True):
        apart = (max(rates) - min(rates)) / statistics.median(rates)
        if apart > MOST_APART:
            yield (
                f"The rounds on {which} are {percent(apart)} apart ({min(rates):,.1f} to "
                f"{max(rates):,.1f} images/s): a difference below that says nothing."
            )


def gain(speed_up: float, nodes: float) -> Gain:
    """The gain of `nodes` times as many nodes."""
    return Gain(round(speed_up, 4), round(speed_up / nodes, 4))


def guides_gain() -> Gain:
    """What the guides' two machines brought: 1.84."""
    one, two = GUIDES_SECONDS
    return gain(one / two, 2)


def read_point(run: Path) -> ScalingRun:
    """Read what is compared of a run that succeeded."""
    record, summary = read_run(run), read_summary(run)
    assert summary is not None, "train writes a summary"
    batch, epochs = summary.batch_per_rank, summary.epochs
    assert batch is not None and epochs is not None, "the trainer has both"  # noqa: PT018
    ranks = summary.world_size or summary.nodes * int(summary.procs_per_node)
    start, end = of_event(record.metrics, "start")[0], of_event(record.metrics, "end")[-1]
    configuration = {**record.manifest.configuration, **record.config}
    return ScalingRun(
        run_id=summary.run_id,
        nodes=summary.nodes,
        world_size=ranks,
        batch_per_rank=batch,
        global_batch=batch * ranks,
        learning_rate=configuration["learning_rate"],
        epochs=epochs,
        steps=summary.steps,
        images_per_second=summary.images_per_second or 0.0,
        training_seconds=round(end.time - start.time, 3),
        seconds_total=summary.seconds_total,
        test_accuracy=summary.test_accuracy,
        final_loss=summary.final_loss,
    )
