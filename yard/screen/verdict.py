"""The verdict on a cluster on the screen."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Column
from rich.text import Text

from yard.core.words import duration, plural
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
    for row in check_rows(verdict.checks):
        style = "" if row.ok else "red"
        table.add_row(*(Text(cell, style=style) for cell in row.cells))
    console.print()
    console.print(table)
    console.print()
    for fault in verdict.faults:
        for cause in fault.causes:
            times = f" ({cause.times} times)" if cause.times > 1 else ""
            console.print(f"[bold red]{escape(fault.who)}[/]  {escape(cause.reason)}{times}")
            if cause.remedy:
                console.print(f"    {escape(cause.remedy)}")
    for note in verdict.notes:
        hosts = ", ".join(note.hosts)
        console.print(f"[bold yellow]{escape(hosts)}[/]  {escape(note.text)}")
    nodes, took = plural(len(verdict.hosts), "node"), duration(verdict.seconds)
    if verdict.ok:
        console.print(f"[bold green]Fit[/]: {nodes}, {took}")
        return
    at_fault = [fault.who for fault in verdict.faults]
    named = ", ".join(at_fault[:MOST_NAMED])
    if len(at_fault) > MOST_NAMED:
        named += f" and {len(at_fault) - MOST_NAMED} more"
    console.print(f"[bold red]Not fit[/]: {escape(named)}; {nodes} looked at, {took}")


def show_hardware(console: Console, nodes: Mapping[str, Mapping[str, Any]]) -> None:
    """Print what each node is made of."""
    table = plain_table(*HARDWARE_HEADINGS, gap=3)
    for host, node in nodes.items():
        table.add_row(Text(host), *(Text(cell) for cell in hardware_cells(node)))
    console.print(table)
