"""The results of a benchmark as tables on the screen."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from yard.screen.plain_table import numbers, plain_table


def show_bench(console: Console, result: Mapping[str, Any]) -> None:
    """Print the tables.

    Args:
        result: `bench.json` of trainer/bench/suite.py, which names what it has measured.
    """
    hosts = len(result["hosts"])
    labels = result["labels"]
    console.print(
        f"{result['world_size']} ranks on {hosts} node{'s' if hosts > 1 else ''}, "
        f"{result['threads']} thread{'s' if result['threads'] > 1 else ''} a rank, "
        f"on {'GPUs' if result['device'] == 'cuda' else 'processors'}; "
        "medians over all turns"
    )
    trainings = result["throughput"]
    speeds = _table("images/s", *trainings)
    for arm, label in labels["arms"].items():
        rates = [training["images_per_second"].get(arm) for training in trainings.values()]
        if any(rates):
            speeds.add_row(label, *(f"{speed:,.1f}" if speed else "" for speed in rates))
    ratios = _table("ratio within a round", *trainings)
    for name, label in labels["ratios"].items():
        values = [training["ratios"].get(name) for training in trainings.values()]
        if any(values):
            ratios.add_row(label, *(f"{ratio:.3f}" if ratio else "" for ratio in values))
    engines = list(dict.fromkeys(entry["engine"] for entry in result["allreduce"]))
    sums = _table("allreduce, ms", *(labels["arms"][engine] for engine in engines))
    for size in sorted({entry["bytes"] for entry in result["allreduce"]}):
        times = {e["engine"]: e["seconds"] for e in result["allreduce"] if e["bytes"] == size}
        sums.add_row(_bytes(size), *(f"{1000 * times[name]:,.2f}" for name in engines))
    matmul = result["matmul"]
    products = _table(f"matrix product, {matmul['size']} wide", "GFLOP/s")
    for name, label in labels["matmul"].items():
        products.add_row(label, f"{matmul['gflops'][name]:,.1f}")
    for table in (speeds, ratios, sums, products):
        console.print(table)


def _table(first: str, *others: str) -> Table:
    return plain_table(first, *numbers(*others), gap=3, header_style="bold")


def _bytes(size: int) -> str:
    for unit, factor in (("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size // factor} {unit}"
    return f"{size} B"
