"""`make verify`: run the checks, show the verdict, draw its page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from yard.context import Context
from yard.errors import ClusterError, Exit, Interrupted, RequestError
from yard.files import read_json
from yard.inventory import Inventory, read_inventory
from yard.job import VERIFICATION, open_job
from yard.playbook import run_playbook
from yard.progress import duration, make_progress
from yard.run import STOP_MARK, followed
from yard.setup import show_failures
from yard.stop import stop_on_nodes
from yard.train import owner
from yard.verify_progress import CheckProgress

# What can be asked for; the nodes themselves are always looked at.
PARTS = ("nodes", "ssh", "pairs", "mpi", "containers")
LIMITS = {"least": "at least ", "most": "at most ", "equal": ""}


def verify(context: Context, parts: Sequence[str]) -> Exit:
    """Run playbooks/verify.yml and show its verdict.

    Everything goes to `runs/verify-<time>/`: `verdict.json` and `nodes.json`, which the playbook
    writes, the page `verify.html`, and Ansible's whole output.

    Args:
        parts: of `PARTS`; none means all.

    Raises:
        RequestError: there is no such part.
        ClusterError: there is no node to verify.
        Interrupted: the user stopped it, here or with `make stop`.
    """
    project = context.project
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise RequestError([f"no checks {', '.join(unknown)}; there are: {', '.join(PARTS)}"])
    inventory = read_inventory(project, context.inventory)
    if not inventory.trainers:
        shown = project.shown(inventory.path)
        raise ClusterError(f"there is no node yet\nrun: make setup INVENTORY={shown}")
    directory = open_job(project, VERIFICATION, inventory, {"checks": list(parts or PARTS)})
    context.console.print(f"Verification {directory.name}", soft_wrap=True)
    with followed(directory):
        return _verify(context, inventory, directory, parts or PARTS)


def _verify(context: Context, inventory: Inventory, directory: Path, parts: Sequence[str]) -> Exit:
    project, console, interrupts = context.project, context.console, context.interrupts
    mark = directory / STOP_MARK
    with make_progress(console) as progress:
        interrupts.announce = lambda _: progress.note("Stopping ...")
        watcher = CheckProgress(progress, inventory.trainers, parts)
        outcome = run_playbook(
            project,
            project.playbook("verify"),
            inventory.path,
            {
                "cluster_check_directory": str(directory),
                "cluster_check_parts": list(parts),
                "training_run_owner": owner(),
            },
            directory / "verify.log",
            watcher.take,
            lambda: interrupts.requested or mark.exists(),
        )
    if outcome.status == "cancelled":
        if "containers" in watcher.begun:
            stop_on_nodes(context, directory, inventory.path)
        word = "interrupted" if interrupts.requested else "stopped by make stop"
        raise Interrupted(f"{word}; {project.shown(directory)} has what was done")
    verdict = read_json(directory / "verdict.json")
    if verdict is None:
        show_failures(console, outcome)
        console.print(f"no verdict; see {project.shown(directory)}/verify.log", soft_wrap=True)
        return Exit.FAILED
    page = write_page(directory)
    show_hardware(console, read_json(directory / "nodes.json") or {})
    show_findings(console, verdict)
    console.print(f"{project.shown(page)}, verdict.json and nodes.json beside it", soft_wrap=True)
    return Exit.DONE if verdict["ok"] else Exit.UNFIT


def write_page(directory: Path) -> Path:
    """Draw the page of a verdict."""
    # Only the page needs the template engine.
    from yard.verify_page import write_verify_page

    return write_verify_page(directory)


def show_findings(console: Console, verdict: dict[str, Any]) -> None:
    """Print a line for every check, then who is at fault and why, then the verdict."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("check", no_wrap=True)
    table.add_column("passed", no_wrap=True)
    table.add_column("found")
    table.add_column("wanted")
    for row in summarise_checks(verdict["checks"]):
        style = "" if row.ok else "red"
        table.add_row(*(Text(cell, style=style) for cell in row.cells))
    console.print()
    console.print(table)
    console.print()
    for fault in verdict["faults"]:
        for cause in fault["causes"]:
            times = f" ({cause['times']} times)" if cause["times"] > 1 else ""
            console.print(
                f"[bold red]{escape(fault['who'])}[/]  {escape(cause['reason'])}{times}",
                soft_wrap=True,
            )
            if cause["remedy"]:
                console.print(f"    {escape(cause['remedy'])}", soft_wrap=True)
    took = duration(verdict["seconds"])
    number = len(verdict["hosts"])
    what = f"{number} node{'s' if number > 1 else ''}, {took}"
    console.print(
        f"[bold green]Fit[/]: {what}" if verdict["ok"] else f"[bold red]Not fit[/]: {what}"
    )


class CheckRow:
    """All findings of one check in a line."""

    def __init__(self, name: str, findings: Sequence[dict[str, Any]]) -> None:
        passed = sum(1 for finding in findings if finding["ok"])
        kind = "pairs" if "pair" in findings[0] else "nodes"
        number = len({finding.get("host") or tuple(finding["pair"]) for finding in findings})
        self.name = name
        self.ok = passed == len(findings)
        share = str(number) if self.ok else f"{passed} of {len(findings)}"
        self.cells = (name, f"{share} {kind}", found(findings), wanted(findings[0]))


def summarise_checks(findings: Sequence[dict[str, Any]]) -> list[CheckRow]:
    """One row a check, in the order in which they were done."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for finding in findings:
        by_name.setdefault(finding["name"], []).append(finding)
    return [CheckRow(name, entries) for name, entries in by_name.items()]


def found(findings: Sequence[dict[str, Any]]) -> str:
    """What a check found: the range of numbers, the different texts."""
    unit = findings[0]["unit"]
    numbers = [f["value"] for f in findings if isinstance(f["value"], int | float)]
    if numbers:
        low, high = min(numbers), max(numbers)
        text = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        return f"{text} {unit}".strip()
    texts = list(dict.fromkeys(short(str(finding["value"])) for finding in findings))
    return ", ".join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "")


def wanted(finding: dict[str, Any]) -> str:
    """What a check wants: nothing to say where that is what a good one finds."""
    if finding["limit"] == "equal":
        return ""
    return f"{LIMITS[finding['limit']]}{finding['threshold']:g} {finding['unit']}".strip()


def short(text: str) -> str:
    """An image's digest by its first digits; other texts as they are."""
    return text[:19] if text.startswith("sha256:") else text


def show_hardware(console: Console, nodes: dict[str, Any]) -> None:
    """Print what each node is made of."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for heading in ("node", "processor", "cores", "NUMA", "memory", "disks", "GPUs", "network"):
        table.add_column(heading)
    for host, node in nodes.items():
        table.add_row(Text(host), *(Text(cell) for cell in hardware_cells(node)))
    console.print(table)


def hardware_cells(node: dict[str, Any]) -> tuple[str, ...]:
    """One node: processor, cores, NUMA nodes, memory, disks, GPUs, network cards."""
    cpu = node["cpu"]
    disks = [
        f"{disk['name']} {disk['kind']} {disk['bytes'] / 1e9:,.0f} GB" for disk in node["disks"]
    ]
    models = [gpu["model"] for gpu in node["gpus"]]
    gpus = [f"{models.count(model)} x {model}" for model in dict.fromkeys(models)]
    nics = [
        nic["name"]
        + (f" {nic['megabits_per_second'] / 1000:g} Gbit/s" if nic["megabits_per_second"] else "")
        for nic in node["nics"]
    ]
    return (
        cpu["model"] or "?",
        f"{cpu['usable']} of {cpu['cores']}"
        if cpu["usable"] != cpu["threads"]
        else f"{cpu['cores']}",
        str(cpu["numa_nodes"]),
        f"{node['memory_bytes'] / 2**30:,.0f} GiB",
        ", ".join(disks) or "none",
        ", ".join(gpus) or "none",
        ", ".join(nics),
    )
