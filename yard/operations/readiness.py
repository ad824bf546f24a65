"""Makes a cluster ready for a training, as far as that is missing and ours to do."""

from rich.markup import escape

from yard.core.context import Context
from yard.core.errors import ClusterError, UnreachableError
from yard.operations.setup import deliver_image, put_dataset, run_setup
from yard.plays.contract import IMAGE_MISSING, MENDED_BY_SETUP
from yard.plays.events import Outcome
from yard.plays.inventory import Inventory
from yard.request.job import Job
from yard.runs.setup_record import find_staleness, read_record


def make_ready(context: Context, inventory: Inventory, job: Job, force: bool = False) -> Inventory:
    """Set the cluster up and put the data set there, as far as that is missing and ours to do.

    Only clusters whose nodes are containers are set up unasked. Machines are their owners'.

    Raises:
        ClusterError: it is needed and not ours to do, or it failed.
        Interrupted: the user stopped it.
    """
    project, console = context.project, context.console
    stale = find_staleness(project, inventory, job.min_nodes)
    reasons = stale.reasons
    ours = bool(inventory.container_hosts)
    if reasons and not ours:
        shown = project.shown(inventory.path)
        raise ClusterError(
            f"{shown} needs setting up: {'; '.join(reasons)}\nrun: make setup INVENTORY={shown}"
        )
    if stale.image_alone and not force:
        console.print(f"Making the trainer image anew: {escape('; '.join(reasons))}")
        try:
            deliver_image(context, inventory)
        except UnreachableError as error:
            console.print(escape(str(error)), soft_wrap=True)
            force = True
        else:
            reasons = ()
    if reasons or force:
        console.print(f"Setting up: {escape('; '.join(reasons) or 'a node is not fit')}")
        inventory = run_setup(context, inventory, job.min_nodes)
    record = read_record(project, inventory)
    if ours and job.dataset is not None and (record is None or job.dataset not in record.datasets):
        put_dataset(context, inventory, job.dataset)
    return inventory


def lacks_image_alone(outcome: Outcome) -> bool:
    """Whether a launch failed because nodes do not hold the image, and for nothing else."""
    codes = {problem.code for failure in outcome.failures for problem in failure.problems}
    return codes == {IMAGE_MISSING}


def setup_would_help(inventory: Inventory, outcome: Outcome) -> bool:
    """Whether a launch failed on nodes that set-up can make again: a machine was rebooted, say."""
    return bool(inventory.container_hosts) and any(
        failure.unreachable or any(problem.code in MENDED_BY_SETUP for problem in failure.problems)
        for failure in outcome.failures
    )
