"""Asks the nodes once what runs there."""

import time
from collections.abc import Sequence
from pathlib import Path

from yard.core.context import Context
from yard.core.errors import ClusterError, Interrupted
from yard.core.files import read_object
from yard.plays.contract import CALL_NODE, READ_STATUS
from yard.plays.events import Event, failure_message, unreachable_reason
from yard.plays.inventory import read_inventory
from yard.plays.play import fresh_log, play
from yard.runs.cluster_state import NOT_SET_UP, SILENT, UNREACHABLE, Answers, ClusterState
from yard.runs.folder import is_followed, list_runs
from yard.runs.summary import is_over
from yard.screen.failures import show_failures


def ask_nodes(context: Context, limit: Sequence[str] = ()) -> ClusterState:
    """Ask every node of the inventory what runs there and how busy it is.

    Args:
        limit: the nodes to ask; none means all.

    Raises:
        ClusterError: something else than a node was in the way.
    """
    runs = context.project.runs
    answers, left = Answers(runs), left_runs(runs, context.inventory)

    def take(event: Event) -> None:
        if event.module not in (CALL_NODE, READ_STATUS) or not event.host:
            return
        if event.kind == "runner_on_ok":
            answers.take(event.host, event.result)
        elif event.kind in ("runner_on_unreachable", "runner_on_failed"):
            answers.miss(event.host, *why_missed(event))

    log = fresh_log(context, "status")
    outcome = play(context, "status", {}, take, log=log, limit=limit)
    if outcome.cancelled:
        raise Interrupted("interrupted")
    if answers.is_empty or not outcome.ok:
        # A file of the inventory may be at fault, which this names and Ansible may not.
        there = None if outcome.stats else read_inventory(context.project, context.inventory)
        show_failures(context, outcome)
        shown = context.project.shown(context.inventory)
        if outcome.ok:
            ways = ["INVENTORY= names the inventory of your machines"]
            if there is not None and there.container_hosts:
                ways.insert(0, "make setup makes the local ones")
            raise ClusterError(f"there is no node in {shown}; {', '.join(ways)}")
        raise ClusterError(f"the nodes of {shown} could not be asked")
    # A run that begins or ends during the look was not left both before and after it.
    after = left_runs(runs, context.inventory)
    return answers.state(time.time(), [run for run in left if run in after])


def why_missed(event: Event) -> tuple[str, str]:
    """The state of a node that has no answer, and the reason."""
    if event.kind == "runner_on_unreachable":
        return UNREACHABLE, unreachable_reason(event.result)
    if event.result.get("code") == "no_directory":
        return NOT_SET_UP, failure_message(event.result)
    timed_out = event.result.get("timedout")
    limit = timed_out.get("period") if isinstance(timed_out, dict) else None
    return SILENT, f"silent for {limit} s" if limit else failure_message(event.result)


def left_runs(runs: Path, inventory: Path) -> list[str]:
    """Ids of the inventory's runs that have no result and that nobody follows, who would write it.

    One that is followed may not be on its nodes yet.
    """
    left = [run for run in list_runs(runs) if not is_over(run) and not is_followed(run)]
    return [
        run.name
        for run in left
        if read_object(run / "manifest.json").get("inventory_path") == str(inventory)
    ]
