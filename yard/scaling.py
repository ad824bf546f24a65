"""`make scaling`: the same job on one node and on several, and what the further nodes bring."""

import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from yard.context import Context
from yard.errors import Exit, RequestError
from yard.files import write_json, write_text
from yard.inventory import read_inventory
from yard.manifest import read_manifest
from yard.metrics import of_event
from yard.progress import duration, percent
from yard.request import Training, TrainRequest, resolve
from yard.run import list_runs, read_run
from yard.summary import read_summary
from yard.train import train

# What the guides that this project follows measured on one machine and on two, in seconds.
GUIDES_SECONDS = (57 * 60 + 32, 31 * 60 + 18)
# What is the same on one node and on several: the images of a rank in a step, or of all ranks.
RANK_BATCH, GLOBAL_BATCH = HOLD = ("rank-batch", "global-batch")


@dataclass(frozen=True)
class Point:
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
    one: Point
    many: Point
    throughput: Gain
    training: Gain

    def to_json(self) -> dict[str, Any]:
        """The document as written."""
        guides = {"nodes": 2, "seconds": GUIDES_SECONDS, **asdict(guides_gain())}
        return {**asdict(self), "guides": guides}


def scaling(context: Context, request: TrainRequest, hold: str = RANK_BATCH) -> Exit:
    """Train on one node, then on several, and write down what that brought.

    Args:
        hold: one of `HOLD`: with the same images of a rank in a step the global batch grows with
            the nodes; with the same images of all ranks the batch of a rank shrinks.

    Raises:
        RequestError: the request makes no sense; nothing has been touched.
        ClusterError, Interrupted: see `train`.
    """
    inventory = read_inventory(context.project, context.inventory)
    several = replace(request, nodes=request.nodes or 2, min_nodes=None)
    if several.nodes == 1:
        raise RequestError(["nodes 1: scaling compares one node with more"])
    many = resolve(several, inventory)
    single = replace(several, nodes=1)
    if hold == GLOBAL_BATCH:
        single = replace(single, batch=many.batch_per_rank * many.nodes)
    one = resolve(single, inventory)

    scaling_id = f"scaling-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    runs = context.project.runs
    points = []
    for asked, training in ((single, one), (several, many)):
        context.console.rule(_nodes(training.nodes), align="left")
        name = f"{scaling_id}, {_nodes(training.nodes)}"
        status = train(context, replace(asked, name=name), time.time())
        if status != Exit.DONE:
            context.console.print("Without this run there is nothing to compare.")
            return status
        points.append(read_point(_named(runs, name)))
    result = compare(scaling_id, one, hold, *points)
    folder = runs / scaling_id
    write_json(folder / "scaling.json", result.to_json())
    show_scaling(context.console, result)
    write_text(folder / "scaling.html", scaling_page(runs, result))
    shown = escape(context.project.shown(folder))
    context.console.print(f"Written to {shown}/scaling.json and {shown}/scaling.html")
    return Exit.DONE


def compare(scaling_id: str, training: Training, hold: str, one: Point, many: Point) -> Scaling:
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


def read_point(run: Path) -> Point:
    """Read what is compared of a run that succeeded."""
    record, summary = read_run(run), read_summary(run)
    assert summary is not None, "train writes a summary"
    start, end = of_event(record.metrics, "start")[0], of_event(record.metrics, "end")[-1]
    ranks = summary.world_size or summary.nodes * summary.procs_per_node
    configuration = {**record.manifest.configuration, **record.config}
    return Point(
        run_id=summary.run_id,
        nodes=summary.nodes,
        world_size=ranks,
        batch_per_rank=summary.batch_per_rank,
        global_batch=summary.batch_per_rank * ranks,
        learning_rate=configuration["learning_rate"],
        epochs=summary.epochs,
        steps=summary.steps,
        images_per_second=summary.images_per_second or 0.0,
        training_seconds=round(end.time - start.time, 3),
        seconds_total=summary.seconds_total,
        test_accuracy=summary.test_accuracy,
        final_loss=summary.final_loss,
    )


def bars(result: Scaling) -> list[tuple[str, Gain, str]]:
    """The gains as drawn: a label, the gain, and the colour."""
    nodes = result.many.nodes
    return [
        (f"ideal, {nodes} nodes", gain(nodes, nodes), "--c8"),
        ("this job, images/s", result.throughput, "--c1"),
        ("this job, time to train", result.training, "--c1"),
        ("guides, time to train, 2 nodes", guides_gain(), "--c2"),
    ]


def show_scaling(console: Console, result: Scaling) -> None:
    """Print the two runs and the gains."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for heading in ("nodes", "ranks", "global batch", "images/s", "time to train", "test accuracy"):
        table.add_column(heading, justify="right")
    for point in (result.one, result.many):
        accuracy = "" if point.test_accuracy is None else percent(point.test_accuracy)
        table.add_row(
            str(point.nodes),
            str(point.world_size),
            str(point.global_batch),
            f"{point.images_per_second:,.1f}",
            duration(point.training_seconds),
            accuracy,
        )
    console.rule("Scaling", align="left")
    console.print(table)
    console.print()
    for label, found, _ in bars(result)[1:]:
        efficiency = percent(found.efficiency)
        console.print(f"  {label:<32}[bold]{found.speed_up:.2f}[/] times, efficiency {efficiency}")
    console.print(f"\nHeld constant: {escape(result.held)}", soft_wrap=True)


def scaling_page(runs: Path, result: Scaling) -> str:
    """The result as HTML, with the curves of both runs."""
    # Drawing takes a while to import; nobody shall wait for that before the first run.
    from yard.charts import comparison_charts
    from yard.page import drawings, render

    points = (result.one, result.many)
    metrics = {_nodes(point.nodes): read_run(runs / point.run_id).metrics for point in points}
    times = f"{result.training.speed_up:.2f} times as fast on {_nodes(result.many.nodes)}"
    return render(
        "scaling.html.j2",
        title=f"{result.model} on {result.dataset}: {times}",
        result=result,
        points=points,
        bars=bars(result),
        charts=drawings(comparison_charts(metrics)),
    )


def _nodes(number: int) -> str:
    return f"{number} node{'s' if number > 1 else ''}"


def _named(runs: Path, name: str) -> Path:
    """The run that bears a name."""
    found = [
        run
        for run in list_runs(runs)
        if (manifest := read_manifest(run)) is not None and manifest.name == name
    ]
    return found[-1]
