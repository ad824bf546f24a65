"""What several nodes bring over one: two runs compared."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from yard.request.training import RANK_BATCH, Training
from yard.runs.metrics import of_event
from yard.runs.record import read_run
from yard.runs.summary import read_summary

# What the guides that this project follows measured on one machine and on two, in seconds.
GUIDES_SECONDS = (57 * 60 + 32, 31 * 60 + 18)


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
        one, many: the runs on one node and on several.
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

    def to_json(self) -> dict[str, Any]:
        """The document as written."""
        guides = {"nodes": 2, "seconds": GUIDES_SECONDS, **asdict(guides_gain())}
        return {**asdict(self), "guides": guides}


def compare(
    scaling_id: str, training: Training, hold: str, one: ScalingRun, many: ScalingRun
) -> Scaling:
    """What the further nodes brought."""
    common = f"model, images, {training.epochs} epochs"
    if one.learning_rate == many.learning_rate:
        common += f", learning rate {one.learning_rate:g}"
    if hold == RANK_BATCH:
        held = (
            f"{common}, {one.batch_per_rank} images a rank and step. The global batch grows with "
            f"the nodes, from {one.global_batch} to {many.global_batch}; the steps get fewer."
        )
    else:
        held = (
            f"{common}, {one.global_batch} images a step of all ranks. "
            f"The batch of a rank shrinks, from {one.batch_per_rank} to {many.batch_per_rank}."
        )
    nodes = many.nodes / one.nodes
    return Scaling(
        scaling_id,
        training.model,
        training.dataset,
        held,
        one,
        many,
        gain(many.images_per_second / one.images_per_second, nodes),
        gain(one.training_seconds / many.training_seconds, nodes),
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
