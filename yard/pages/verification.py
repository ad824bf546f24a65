"""`verify.html`: the verdict on a cluster with the bandwidth between all nodes as a heat map."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from yard.core.files import write_text
from yard.core.words import duration, plural
from yard.pages.page import render
from yard.runs.verdict import Verdict, read_hardware
from yard.screen.verdict_cells import CHECK_HEADINGS, HARDWARE_HEADINGS, check_rows, hardware_cells

# Shades between the slowest link that is good enough and the fastest one.
SHADES = 6


@dataclass(frozen=True)
class Cell:
    """One field of the heat map.

    Attributes:
        text: the number, empty on the diagonal.
        shade: class of its colour: `self`, `none` (not measured), `bad`, or `shade0` and up.
    """

    text: str
    shade: str
    title: str


def write_verification_page(directory: Path, verdict: Verdict) -> Path:
    """Draw the page of a verification; returns the path written."""
    page = render(
        "verify.html.j2",
        title=f"Cluster {'fit' if verdict.ok else 'not fit'}: {plural(len(verdict.hosts), 'node')}",
        script=False,
        verdict=verdict,
        began=f"{datetime.fromtimestamp(verdict.began_at, UTC):%d %B %Y, %H:%M UTC}",
        took=duration(verdict.seconds),
        maps=[
            ("Bandwidth", "Gbit/s, from the node of the row to the node of the column",
             heat_map(verdict, "bandwidth", verdict.bandwidth_gigabits)),
            ("Latency", "ms, there and back",
             heat_map(verdict, "latency", verdict.latency_milliseconds)),
        ],
        sums=[(True, cells) for cells in allreduce_rows(verdict.allreduce)],
        check_headings=CHECK_HEADINGS,
        checks=check_rows(verdict.checks),
        hardware_headings=HARDWARE_HEADINGS,
        hardware=[
            (True, (host, *hardware_cells(node)))
            for host, node in read_hardware(directory).items()
        ],
    )  # fmt: skip
    path = directory / "verify.html"
    write_text(path, page)
    return path


def heat_map(
    verdict: Verdict, name: str, matrix: Sequence[Sequence[float | None]]
) -> list[tuple[str, list[Cell]]]:
    """Rows of cells, by host; empty where no pair was tested.

    Args:
        name: of the check of pairs that judged the numbers of the matrix.
    """
    checks = {check.where: check for check in verdict.checks if check.name == name}
    if not checks:
        return []
    good = [check.number for check in checks.values() if check.ok and check.number is not None]
    rows = []
    for a, values in zip(verdict.hosts, matrix, strict=True):
        cells = []
        for b, value in zip(verdict.hosts, values, strict=True):
            if a == b:
                cells.append(Cell("", "self", ""))
            elif value is None:
                reason = str(checks[a, b].value) if (a, b) in checks else "not tested"
                cells.append(Cell("—", "none", f"{a} to {b}: {reason}"))
            else:
                check = checks[a, b]
                shade = f"shade{shade_of(value, good)}" if check.ok else "bad"
                cells.append(Cell(number(value), shade, f"{a} to {b}: {value:g} {check.unit}"))
        rows.append((a, cells))
    return rows


def allreduce_rows(measured: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """One row a message size: size, time, and both bandwidths."""
    return [
        (
            f"{entry['bytes'] / 2**20:g} MiB" if entry["bytes"] >= 2**20 else
            f"{entry['bytes'] / 2**10:g} KiB",
            f"{1e3 * entry['seconds']:.3g} ms",
            number(entry["algorithm_gigabits_per_second"]),
            number(entry["bus_gigabits_per_second"]),
        )
        for entry in measured
    ]  # fmt: skip


def shade_of(value: float, good: Sequence[float]) -> int:
    """The shade of a value among the good ones, 0 for the smallest."""
    low, high = min(good), max(good)
    if high <= low:
        return SHADES // 2
    return min(int(SHADES * (value - low) / (high - low)), SHADES - 1)


def number(value: float) -> str:
    """Three digits that count."""
    return f"{value:.3g}"
