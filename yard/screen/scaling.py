"""The result of `make scaling` on the screen."""

from rich.console import Console
from rich.markup import escape

from yard.core.words import duration, percent, plural
from yard.runs.scaling import Gain, Scaling, gain, guides_gain
from yard.screen.plain_table import numbers, plain_table


def bars(result: Scaling) -> list[tuple[str, Gain, str]]:
    """The gains as drawn: a label, the gain, and the colour."""
    nodes = result.many.nodes
    return [
        (f"ideal, {plural(nodes, 'node')}", gain(nodes, nodes), "--c8"),
        ("this job, images/s", result.throughput, "--c1"),
        ("this job, time to train", result.training, "--c1"),
        ("guides, time to train, 2 nodes", guides_gain(), "--c2"),
    ]


def show_scaling(console: Console, result: Scaling) -> None:
    """Print the two runs and the gains."""
    headings = ("nodes", "ranks", "global batch", "images/s", "time to train", "test accuracy")
    table = plain_table(*numbers(*headings), gap=3)
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
    for label, gained, _ in bars(result)[1:]:
        efficiency = percent(gained.efficiency)
        console.print(f"  {label:<32}[bold]{gained.speed_up:.2f}[/] times, efficiency {efficiency}")
    console.print(f"\nHeld constant: {escape(result.held)}")
    for doubt in result.doubts:
        console.print(f"[yellow]doubtful[/]: {escape(doubt)}")
