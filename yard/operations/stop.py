"""The end of what runs on the nodes, before its time."""

from collections.abc import Sequence
from pathlib import Path

from yard.core.context import Context
from yard.operations.runtime import as_it_ran
from yard.plays.contract import END_RUN, stop_variables
from yard.plays.events import Event, Outcome
from yard.plays.play import play
from yard.runs.folder import STOP_MARK
from yard.runs.manifest import read_manifest
from yard.runs.record import note_empty_host, read_run
from yard.runs.retry import nodes_of
from yard.screen.failures import show_failures
from yard.screen.live_progress import make_progress
from yard.screen.progress import STOPPING


def stop_ranks(context: Context, run: Path, wanted: bool = True) -> Outcome:
    """Stop a run on its nodes and collect what it left, whatever is pressed meanwhile.

    Args:
        wanted: the user wants the end; else the run has ended, and what it left is collected.
    """
    manifest = read_run(run).manifest
    as_it_ran(context, manifest)
    if wanted:
        # First of all on disk, so that a launch that follows the run calls it stopped, not failed.
        (run / STOP_MARK).touch()
    # Another node has no part in it, and may not answer.
    inventory = Path(manifest.inventory_path)
    return stop_on_nodes(context, run, inventory, manifest.home, nodes_of(run))


def heed_stop(context: Context, run: Path) -> bool:
    """Take `make stop`, given elsewhere, for an interruption of this command.

    While nothing of the run is on a node that command finds nothing to end there.

    Returns:
        Whether it was given.
    """
    if not (run / STOP_MARK).exists():
        return False
    if not context.interrupts.requested:
        context.interrupts.request()
    return True


def note_ended(run: Path, event: Event) -> None:
    """Note which nodes had nothing of a run when they ended it: no log of theirs is missing."""
    is_answer = event.module == END_RUN and event.kind == "runner_on_ok"
    manifest = read_manifest(run) if is_answer and event.result.get("left") is False else None
    if manifest is not None and event.host in manifest.hosts:
        note_empty_host(run, event.host)


def stop_on_nodes(
    context: Context,
    directory: Path,
    inventory: Path,
    home: str | None = None,
    limit: Sequence[str] = (),
) -> Outcome:
    """Run playbooks/stop.yml to its end, whatever is pressed meanwhile.

    Args:
        directory: where everything goes that was left; its name is the id of what runs.
        home: where it was begun, if that was elsewhere.
        limit: the nodes that it may be on; none means all.
    """
    console = context.console

    def take(event: Event) -> None:
        if event.task:
            progress.task(event.task)
        note_ended(directory, event)

    with make_progress(console) as progress:
        context.interrupts.announce = lambda: progress.note(
            "Still collecting the logs of this run; this ends by itself."
        )
        progress.phase(STOPPING)
        outcome = play(
            context,
            "stop",
            stop_variables(directory.name, str(directory), home),
            take,
            log=directory / "ansible.log",
            inventory=inventory,
            to_its_end=True,
            limit=limit,
        )
        if not outcome.ok:
            progress.fail()
    if not outcome.ok:
        console.print("[red]Some things could not be stopped or collected:[/]")
        show_failures(context, outcome, inventory)
    return outcome
