"""What failed in a playbook, for people."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from yard.core.context import Context
from yard.core.project import Project
from yard.plays.events import Outcome
from yard.plays.remedy import addressed, reaching

# Words of rsync, or of the shell that starts it, and what to do about it.
OF_RSYNC = {
    "is your shell clean?": "a shell there prints by itself: make doctor names the remedy",
    "rsync: command not found": "the machine was never set up, or rsync was removed: make setup",
}


def show_failures(context: Context, outcome: Outcome, inventory: Path | None = None) -> None:
    """Print which task failed on which hosts, and what it said; once, where all say the same.

    Args:
        inventory: of these hosts; None means the one the command was given.
    """
    hosts: dict[tuple[str, str], list[str]] = {}
    for failure in outcome.failures:
        task = f"{failure.role} : {failure.task}" if failure.role else failure.task
        hosts.setdefault((task, failure.message), []).append(failure.host)
    for (task, message), where in hosts.items():
        context.console.print(f"[red bold]{escape(', '.join(where))}[/]  {escape(task)}")
        known = (remedy for words, remedy in OF_RSYNC.items() if words in message)
        for line in (*message.splitlines(), *known):
            told = reaching(line, context.project, inventory or context.inventory)
            context.console.print(f"    {escape(told)}")


def point_to_doctor(console: Console, project: Project, inventory: Path) -> None:
    """Print which command tells why a host is not reached, and what mends it."""
    doctor = addressed("make doctor", project, inventory)
    console.print(f"{doctor} says what mends it", markup=False)
