"""The end of what runs on the nodes, before its time."""

from pathlib import Path

from yard.context import Context
from yard.playbook import Outcome, run_playbook
from yard.progress import STOPPING, make_progress
from yard.setup import show_failures


def stop_on_nodes(context: Context, directory: Path, inventory: Path) -> Outcome:
    """Run playbooks/stop.yml to its end, whatever is pressed meanwhile.

    Args:
        directory: where everything goes that was left; its name is the id of what runs.
        inventory: with the nodes it runs on.
    """
    console = context.console
    with make_progress(console) as progress:
        context.interrupts.announce = lambda count: progress.note(
            "Still collecting the logs of this run; it ends by itself."
        )
        progress.phase(STOPPING)
        outcome = run_playbook(
            context.project,
            context.project.playbook("stop"),
            inventory,
            {"training_run_id": directory.name, "training_run_collect_dir": str(directory)},
            directory / "ansible.log",
            lambda event: progress.task(event.task) if event.task else None,
        )
        if not outcome.ok:
            progress.fail()
    if not outcome.ok:
        console.print("[red]Not everything could be stopped and collected:[/]")
        show_failures(console, outcome)
    return outcome
