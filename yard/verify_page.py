"""`verify.html`: the verdict on a cluster with the bandwidth between all nodes as a heat map."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from yard.files import read_json, write_text
from yard.progress import duration
from yard.verify import hardware_cells, summarise_checks

# Shades between the slowest link that is good enough and the fastest one.
SHADES = 6


@dataclass(frozen=True)
class Cell:
    """One field of the heat map.

    Attributes:
        text: the number, empty on the diagonal.
        shade: class of its colour: `self`, `none` (not measured), `bad`, or `shade0` and up.
        title: the whole sentence.
    """

    text: str
    shade: str
    title: str


def write_verify_page(directory: Path) -> Path:
    """Draw the page from `verdict.json` and `nodes.json`; returns the path written."""
    verdict = read_json(directory / "verdict.json")
    nodes = read_json(directory / "nodes.json") or {}
    environment = Environment(
        loader=PackageLoader("yard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("verify.html.j2").render(
        verdict=verdict,
        began=datetime.fromtimestamp(verdict["began_at"], UTC).strftime("%d %B %Y, %H:%M UTC"),
        took=duration(verdict["seconds"]),
        maps=[
            ("Bandwidth", "Gbit/s, from the node of the row to the node of the column",
             heat_map(verdict, "bandwidth", "bandwidth_gigabits")),
            ("Latency", "ms, there and back",
             heat_map(verdict, "latency", "latency_milliseconds")),
        ],
        sums=allreduce_rows(verdict.get("allreduce", [])),
        rows=summarise_checks(verdict["checks"]),
        hardware={host: hardware_cells(node) for host, node in nodes.items()},
    )  # fmt: skip
    path = directory / "verify.html"
    write_text(path, page)
    return path


def heat_map(verdict: dict[str, Any], name: str, matrix: str) -> list[tuple[str, list[Cell]]]:
    """Rows of cells, by host; empty where no pair was tested."""
    hosts: Sequence[str] = verdict["hosts"]
    findings = {
        tuple(finding["pair"]): finding for finding in verdict["checks"] if finding["name"] == name
    }
    if not findings:
        return []
    good = [
        finding["value"]
        for finding in findings.values()
        if finding["ok"] and isinstance(finding["value"], int | float)
    ]
    rows = []
    for a, values in zip(hosts, verdict[matrix], strict=True):
        cells = []
        for b, value in zip(hosts, values, strict=True):
            if a == b:
                cells.append(Cell("", "self", ""))
            elif value is None:
                reason = str(findings[a, b]["value"]) if (a, b) in findings else "not tested"
                cells.append(Cell("—", "none", f"{a} to {b}: {reason}"))
            else:
                ok = findings[a, b]["ok"]
                shade = f"shade{shade_of(value, good)}" if ok else "bad"
                unit = findings[a, b]["unit"]
                cells.append(Cell(number(value), shade, f"{a} to {b}: {value:g} {unit}"))
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
