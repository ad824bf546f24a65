"""What failed in a playbook, for people."""

from rich.console import Console
from rich.markup import escape

from yard.plays.events import Outcome

# rsync's word for what comes before its own first bytes.
SHELL_PRINTS = "is your shell clean?"


def show_failures(console: Console, outcome: Outcome) -> None:
    """Print which task failed on which host, and what it said."""
    for failure in outcome.failures:
        task = f"{failure.role} : {failure.task}" if failure.role else failure.task
        console.print(f"[red bold]{escape(failure.host)}[/]  {escape(task)}", soft_wrap=True)
        for line in failure.message.splitlines():
            console.print(f"    {escape(line)}", soft_wrap=True)
        if SHELL_PRINTS in failure.message:
            console.print("    a shell there prints by itself: make doctor names the remedy")
