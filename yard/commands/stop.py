"""`make stop`: ends a run, a verification or a benchmark from another terminal."""

import time
from pathlib import Path

from rich.markup import escape

from yard.core.context import Context
from yard.core.errors import Exit, Interrupted
from yard.operations.adoption import find_or_adopt
from yard.operations.ending import conclude
from yard.operations.notebook import bring_back
from yard.operations.runtime import reach_as
from yard.operations.stop import stop_on_nodes, stop_ranks
from yard.runs.folder import STOP_MARK, is_followed
from yard.runs.measurements import Kind, find_measurement, read_begun
from yard.runs.summary import read_summary
from yard.screen.live_progress import make_progress
from yard.screen.result import show_result

# How often a stop looks whether the measurement has ended, in seconds.
POLL = 0.2


def stop(context: Context, name: str) -> Exit:
    """End what has this id, the beginning of just one, or is `latest`.

    A run of another checkout is ended by its whole id, and its files come home to this one.

    Raises:
        Interrupted: the user did not wait for its end.
    """
    measurement = find_measurement(context.project, name)
    if measurement is not None:
        return _stop_measurement(context, *measurement)
    return _stop_run(context, find_or_adopt(context, name))


def _stop_run(context: Context, run: Path) -> Exit:
    """Interrupt the ranks of a run, collect, remove its containers.

    A run that already has its summary keeps it; what may be left of it is removed all the same.
    """
    summary = read_summary(run)
    outcome = stop_ranks(context, run)
    if summary is None:
        show_result(context.console, context.project, run, conclude(run))
        bring_back(context, run)
    else:
        context.console.print(f"{escape(run.name)} had ended before ({summary.status})")
    return Exit.DONE if outcome.ok else Exit.FAILED


def _stop_measurement(context: Context, kind: Kind, directory: Path) -> Exit:
    """End a measurement, or what is left of one whose `yard` was killed."""
    console, mark = context.console, directory / STOP_MARK
    shown = escape(context.project.shown(directory))
    if not mark.exists() and not is_followed(directory) and (directory / kind.result).exists():
        result = f"{shown}/{kind.result}"
        console.print(f"{directory.name} had ended before; see {result}")
        return Exit.DONE
    # Before its end brings files of the nodes to the folder: none of them may choose the machines.
    begun = read_begun(directory)
    mark.touch()
    with make_progress(console) as progress:
        progress.phase("Waiting for its current step to end")
        # Only when its playbook has ended, nothing more is started on the nodes.
        while is_followed(directory):
            if context.interrupts.requested:
                raise Interrupted(f"{directory.name} was asked to stop, and ends by itself")
            time.sleep(POLL)
    if begun is not None:
        reach_as(context, begun.inventory, begun.runtime)
    inventory = context.inventory if begun is None else begun.inventory
    outcome = stop_on_nodes(context, directory, inventory)
    console.print(f"{directory.name} has ended; {shown} has what was done")
    return Exit.DONE if outcome.ok else Exit.FAILED
