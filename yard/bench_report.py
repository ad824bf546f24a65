"""The results of a benchmark as tables on the screen and as a plot."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from rich.console import Console
from rich.table import Table

# Arms of the throughput benchmark in the order they are shown, with what they are called.
ARMS = {
    "one_rank": "one rank",
    "minimal": "one rank, raw loop",
    "independent": "all ranks, no communication",
    "lockstep": "the same, each step waiting for the slowest rank",
    "synthetic": "all ranks, no communication, synthetic data",
    "bf16": "all ranks, no communication, bf16",
    "horovod": "Horovod",
    "ddp_mpi": "DDP, MPI",
    "ddp_gloo": "DDP, Gloo",
    "ddp_torchrun": "DDP, torchrun",
}
RATIOS = {
    "horovod_over_ideal": "Horovod / no communication",
    "ddp_mpi_over_ideal": "DDP, MPI / no communication",
    "ddp_gloo_over_ideal": "DDP, Gloo / no communication",
    "ddp_torchrun_over_ideal": "DDP, torchrun / no communication",
    "lockstep_over_ideal": "in lockstep / no communication",
    "horovod_over_lockstep": "Horovod / in lockstep",
    "horovod_over_best_ddp": "Horovod / best DDP of the round",
    "loop_over_minimal": "loop / raw loop",
    "real_over_synthetic": "real / synthetic data",
    "bf16_over_fp32": "bf16 / fp32",
}
ENGINES = {"horovod": "Horovod", "ddp_mpi": "DDP, MPI", "ddp_gloo": "DDP, Gloo"}
COLOURS = {
    "horovod": "#2a78d6",
    "ddp_mpi": "#c2571a",
    "ddp_gloo": "#3f8f5b",
    "ddp_torchrun": "#8a8f98",
}
# Of the plot, in pixels.
LABEL_WIDTH, IDEAL_WIDTH, BAR_HEIGHT, TITLE_HEIGHT = 190, 420, 22, 36


def show_bench(console: Console, result: Mapping[str, Any]) -> None:
    """Print the tables."""
    hosts = len(result["hosts"])
    console.print(
        f"{result['world_size']} ranks on {hosts} node{'s' if hosts > 1 else ''}, "
        f"{result['threads']} thread{'s' if result['threads'] > 1 else ''} a rank; "
        "medians over all turns",
        soft_wrap=True,
    )
    trainings = result["throughput"]
    speeds = _table("images/s", *trainings)
    for arm, label in ARMS.items():
        found = [training["images_per_second"].get(arm) for training in trainings.values()]
        speeds.add_row(label, *(f"{speed:,.1f}" if speed else "" for speed in found))
    ratios = _table("ratio within a round", *trainings)
    for name, label in RATIOS.items():
        found = [training["ratios"].get(name) for training in trainings.values()]
        ratios.add_row(label, *(f"{ratio:.3f}" if ratio else "" for ratio in found))
    sums = _table("allreduce, ms", *ENGINES.values())
    for size in sorted({entry["bytes"] for entry in result["allreduce"]}):
        times = {e["engine"]: e["seconds"] for e in result["allreduce"] if e["bytes"] == size}
        sums.add_row(_bytes(size), *(f"{1000 * times[name]:,.2f}" for name in ENGINES))
    matmul = result["matmul"]
    products = _table(f"matrix product, {matmul['size']} wide", "GFLOP/s")
    for name, label in (
        ("one_rank", "one rank alone"),
        ("all_ranks", "each rank, all at once"),
        ("distributed", "one product, all ranks together"),
    ):
        products.add_row(label, f"{matmul['gflops'][name]:,.1f}")
    for table in (speeds, ratios, sums, products):
        console.print(table)


def draw_bench(result: Mapping[str, Any], path: Path) -> None:
    """Draw what each engine reaches of the ideal, a bar for each model and engine, as SVG."""
    rows: list[str] = []
    top = TITLE_HEIGHT
    for model, training in result["throughput"].items():
        for arm in ("horovod", "ddp_mpi", "ddp_gloo", "ddp_torchrun"):
            ratio = training["ratios"][f"{arm}_over_ideal"]
            middle = top + (BAR_HEIGHT - 4) / 2
            rows.append(
                f'<text x="{LABEL_WIDTH - 8}" y="{middle}" text-anchor="end">'
                f"{escape(model)}, {ARMS[arm]}</text>"
                f'<rect x="{LABEL_WIDTH}" y="{top}" width="{ratio * IDEAL_WIDTH:.1f}" '
                f'height="{BAR_HEIGHT - 4}" fill="{COLOURS[arm]}"/>'
                f'<text x="{LABEL_WIDTH + ratio * IDEAL_WIDTH - 6:.1f}" y="{middle}" '
                'text-anchor="end" fill="#ffffff">'
                f"{100 * ratio:.1f}</text>"
            )
            top += BAR_HEIGHT
        top += BAR_HEIGHT // 2
    ideal = LABEL_WIDTH + IDEAL_WIDTH
    drawing = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{ideal + 60}" height="{top}" '
        'font-family="sans-serif" font-size="13" dominant-baseline="middle" fill="#5b6470">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text x="{LABEL_WIDTH}" y="{TITLE_HEIGHT / 2}">training throughput, percent of the '
        "same ranks without communication</text>"
        f"{''.join(rows)}"
        f'<path d="M{ideal} {TITLE_HEIGHT - 4}V{top - BAR_HEIGHT // 2}" stroke="#5b6470"/></svg>'
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(drawing + "\n", encoding="utf-8")


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    return table


def _bytes(size: int) -> str:
    for unit, factor in (("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size // factor} {unit}"
    return f"{size} B"
