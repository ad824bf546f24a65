"""A failed run starts again: from its newest checkpoint, on the nodes that are still fit."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape

from yard.core.context import Context
from yard.core.words import duration
from yard.operations.launch import RunFollower
from yard.operations.stop import heed_stop
from yard.request.job import Job
from yard.request.own_code import ProjectRun
from yard.runs.diagnosis import Diagnosis
from yard.runs.failure_rate import expected_failures
from yard.runs.record import read_run
from yard.runs.retry import (
    RESUME_FROM,
    fault_of,
    put_attempt_aside,
    resume_variables,
    worth_another,
)
from yard.runs.signatures import GANG, NETWORK, NODE

# Why the next attempt is not made at once. Seconds until it is: they double with each such failure.
WAITS = {
    NETWORK: "The network was at fault",
    GANG: "Too few nodes are fit, and one may come back",
}
FIRST_WAIT, LONGEST_WAIT = 5.0, 300.0
# Seconds between two looks whether the user wants to stop.
TICK = 0.2


def going_on(job: Job, variables: Mapping[str, Any], resumed: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of a launch that goes on from what `resumed` names, if it names anything."""
    together = {**variables, **resumed}
    if isinstance(job, ProjectRun) and RESUME_FROM in together:
        program = [*job.code.program, *job.code.settings.resume_args]
        together["training_run_program"] = program
    return together


def try_again(
    context: Context,
    run: Path,
    job: Job,
    variables: Mapping[str, Any],
    retries: int,
    limit: Sequence[str] = (),
) -> None:
    """Launch a failed run again, as often as was asked and may help.

    A node that was at fault gets no part while another one is fit, and none after the second time:
    that is the launch role's choice, which is told how often each one was. Where the network was at
    fault, or too few nodes are fit, the attempt waits a while.

    Args:
        limit: the nodes that it may have; none means all.

    Raises:
        Detached: the user has left the run, which goes on.
    """
    failed: Counter[str] = Counter()
    waits = 0
    for restarts, left in enumerate(reversed(range(retries)), start=1):
        failure = worth_another(read_run(run))
        if failure is None or context.interrupts.requested:
            return
        fault = fault_of(failure)
        if fault in (NODE, NETWORK) and failure.host is not None:
            failed.update(failure.host.split(", "))
        place = put_attempt_aside(run)
        resumed = resume_variables(run, same_run=True)
        again = going_on(job, variables, resumed) | {"training_run_failed": dict(failed)}
        if isinstance(job, ProjectRun):
            again["training_run_restarts"] = restarts
        else:
            again |= expected_failures(run.parent, job.nodes)
        _announce(context, failure, place, _whence(job, resumed), left)
        if fault in WAITS:
            waits += 1
            wait = min(FIRST_WAIT * 2 ** (waits - 1), LONGEST_WAIT)
            context.console.print(f"{WAITS[fault]}. The next attempt starts in {duration(wait)}.")
            if not wait_unless_interrupted(context, run, wait):
                return
        manifest = read_run(run).manifest
        RunFollower(context, run, manifest, "train", again, limit, asks=True).run()


def wait_unless_interrupted(context: Context, run: Path, seconds: float) -> bool:
    """Wait so long; return at once, and False, when the user wants to stop, here or elsewhere."""
    deadline = time.monotonic() + seconds
    while not (heed_stop(context, run) or context.interrupts.requested):
        if time.monotonic() >= deadline:
            return True
        time.sleep(TICK)
    return False


def _whence(job: Job, resumed: Mapping[str, Any]) -> str:
    if RESUME_FROM not in resumed:
        return "anew"
    files = "the files it left" if isinstance(job, ProjectRun) else "its newest checkpoint"
    return f"from {files}"


def _announce(context: Context, failure: Diagnosis, place: Path, whence: str, left: int) -> None:
    context.console.print(
        f"[yellow]Failed[/] ({escape(failure.host or 'not known where')}: "
        f"{escape(failure.cause)}) It starts {whence}; retries left: {left}. "
        f"Its logs are in {escape(context.project.shown(place))}"
    )
