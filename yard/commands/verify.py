"""`make verify`: run the checks, show the verdict, draw its page."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from yard.core.context import Context
from yard.core.errors import ClusterError, Exit, Interrupted, RequestError
from yard.operations.setup import raise_refusal
from yard.operations.stop import stop_on_nodes
from yard.plays.contract import CHECK_PARTS, CONTAINERS, owner_variables
from yard.plays.inventory import NATIVE, Inventory, read_inventory
from yard.plays.play import play
from yard.plays.remedy import addressed, reaching
from yard.runs.folder import STOP_MARK, followed
from yard.runs.measurements import VERIFICATION, open_measurement
from yard.runs.verdict import read_hardware, read_verdict
from yard.screen.check_progress import CheckProgress
from yard.screen.failures import show_failures
from yard.screen.live_progress import make_progress
from yard.screen.verdict import show_findings, show_hardware


def verify(context: Context, parts: Sequence[str], on: Sequence[str] = ()) -> Exit:
    """Run playbooks/verify.yml and show its verdict.

    Everything goes to `runs/verify-<time>/`: `verdict.json` and `nodes.json`, which the playbook
    writes, the page `verify.html`, and Ansible's whole output.

    Args:
        parts: of `CHECK_PARTS`; none means all.
        on: names of nodes or groups, or patterns; none means all.

    Raises:
        Interrupted: the user stopped it, here or with `make stop`.
    """
    project = context.project
    unknown = [part for part in parts if part not in CHECK_PARTS]
    if unknown:
        raise RequestError(f"no checks {', '.join(unknown)}; there are: {', '.join(CHECK_PARTS)}")
    inventory = read_inventory(project, context.inventory)
    if inventory.runtime == NATIVE:
        raise RequestError(
            "verify: needs root on the nodes, which RUNTIME=native does without; there each "
            "launch checks its nodes, and make bench measures the network"
        )
    if not inventory.trainers:
        setup = addressed("make setup", project, inventory.path)
        raise ClusterError(f"there is no node yet\nrun: {setup}")
    hosts = inventory.select(on)
    chosen = parts or CHECK_PARTS
    directory = open_measurement(project, VERIFICATION, inventory, {"checks": list(chosen)})
    context.console.print(f"Verification {directory.name}")
    with followed(directory):
        return _verify(context, inventory, directory, chosen, hosts)


def _verify(
    context: Context,
    inventory: Inventory,
    directory: Path,
    parts: Sequence[str],
    hosts: Sequence[str],
) -> Exit:
    project, console, interrupts = context.project, context.console, context.interrupts
    with make_progress(console) as progress:
        interrupts.announce = lambda: progress.note("Stopping ...")
        watcher = CheckProgress(progress, hosts, parts)
        outcome = play(
            context,
            "verify",
            {
                "cluster_check_directory": str(directory),
                "cluster_check_parts": list(parts),
                **owner_variables(),
            },
            watcher.take,
            log=directory / "verify.log",
            stop_mark=directory / STOP_MARK,
            limit=() if hosts == inventory.trainers else hosts,
        )
    if outcome.cancelled:
        if CONTAINERS in watcher.begun:
            stop_on_nodes(context, directory, inventory.path)
        word = "interrupted" if interrupts.requested else "stopped by make stop"
        raise Interrupted(f"{word}; {project.shown(directory)} has what was done")
    try:
        raise_refusal(outcome, inventory.path)
    except RequestError:
        shutil.rmtree(directory)  # no node was looked at: there is no verification
        raise
    verdict = read_verdict(directory, lambda text: reaching(text, project, inventory.path))
    if verdict is None:
        show_failures(context, outcome)
        console.print(f"no verdict; see {project.shown(directory)}/verify.log")
        return Exit.FAILED
    # Only the page needs the template engine.
    from yard.pages.verification import write_verification_page

    page = write_verification_page(directory, verdict)
    show_hardware(console, read_hardware(directory))
    show_findings(console, verdict)
    console.print(f"{project.shown(page)}, verdict.json and nodes.json beside it")
    return Exit.DONE if verdict.ok else Exit.UNFIT
