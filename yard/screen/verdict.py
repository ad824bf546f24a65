"""The verdict on a cluster on the screen."""

import textwrap
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Column
from rich.text import Text

from yard.core.typed import as_typed
from yard.core.words import duration, first_names, plural
from yard.runs.verdict import Verdict
from yard.screen.plain_table import plain_table
from yard.screen.verdict_cells import CHECK_HEADINGS, HARDWARE_HEADINGS, check_rows, hardware_cells

# So many of those at fault are named in the last line.
MOST_NAMED = 4


def show_findings(console: Console, verdict: Verdict) -> None:
    """Print a line for every check, then who is at fault and why, what else is worth knowing, and
    the verdict.
    """
    first = [Column(heading, no_wrap=True) for heading in CHECK_HEADINGS[:2]]
    table = plain_table(*first, *CHECK_HEADINGS[2:], gap=3)
    for ok, cells in check_rows(verdict.checks):
        table.add_row(*(Text(cell, style="" if ok else "red") for cell in cells))
    console.print()
    console.print(table)
    console.print()
    for fault in verdict.faults:
        for cause in fault.causes:
            times = f" ({cause.times} times)" if cause.times > 1 else ""
            _say(console, fault.who, "bold red", f"{cause.reason}{times}")
            if cause.remedy:
                _say(console, "", "", cause.remedy)
    for note in verdict.notes:
        _say(console, ", ".join(note.hosts), "bold yellow", note.text)
    nodes, took = plural(len(verdict.hosts), "node"), duration(verdict.seconds)
    if verdict.ok:
        console.print(f"[bold green]Fit[/]: {nodes}, {took}")
        return
    at_fault = [fault.who for fault in verdict.faults]
    named = first_names(at_fault, MOST_NAMED)
    console.print(f"[bold red]Not fit[/]: {escape(named)}; {nodes} looked at, {took}")


def _say(console: Console, who: str, style: str, text: str) -> None:
    """Print a sentence about somebody, or below it what to do; on a terminal it is indented."""
    line = as_typed(f"{who}  {text}" if who else f"    {text}")
    if console.is_terminal:
        line = textwrap.fill(line, console.width, subsequent_indent="    ", break_on_hyphens=False)
    console.print(Text.assemble((line[: len(who)], style), line[len(who) :]), soft_wrap=True)


def show_hardware(console: Console, nodes: Mapping[str, Mapping[str, Any]]) -> None:
    """Print what each node is made of: a row each, or a block for all alike where rows are wide."""
    table = plain_table(*HARDWARE_HEADINGS, gap=3)
    alike: dict[tuple[str, ...], list[str]] = {}
    for host, node in nodes.items():
        cells = hardware_cells(node)
        alike.setdefault(cells, []).append(host)
        table.add_row(Text(host), *map(Text, cells))
    whole = console.options.update(width=10_000)
    if nodes and console.measure(table, options=whole).maximum <= console.width:
        console.print(table)
        return
    for cells, hosts in alike.items():
        console.print(Text(", ".join(hosts), style="bold"))
        table = plain_table("", "", show_header=False)
        for heading, cell in zip(HARDWARE_HEADINGS[1:], cells, strict=True):
            table.add_row(Text(f"  {heading}", style="dim"), Text(cell))
        console.print(table)
