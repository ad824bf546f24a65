"""Makes a cluster ready for a training, as far as that is missing and ours to do."""

from rich.markup import escape

from yard.core.context import Context
from yard.core.errors import (
    ClusterError,
    Interrupted,
    RequestError,
    SomeNodesError,
    UnreachableError,
)
from yard.operations.packages import Packages, deliver_packages
from yard.operations.setup import deliver_image, put_dataset, put_own_data, run_setup
from yard.operations.turn import turn
from yard.plays.contract import IMAGE_MISSING, MENDED_BY_SETUP
from yard.plays.events import Outcome
from yard.plays.inventory import Inventory, read_inventory
from yard.plays.remedy import addressed
from yard.request.job import Job
from yard.request.own_data import OwnData, is_folder, read_own_data
from yard.runs.setup_record import find_staleness, forget_packages, forget_setup, read_record

# What is said where nodes of ours do not answer any more
CHANGED = "The nodes have changed since set-up; setting them up again."


def make_ready(context: Context, inventory: Inventory, job: Job, force: bool = False) -> Inventory:
    """Set the cluster up and put the data set there, as far as that is missing and ours to do.

    Only clusters whose nodes are containers are set up unasked. Machines are their owners'.

    Raises:
        ClusterError: it is needed and not ours to do, or it failed.
    """
    if not force and _is_ready(context, inventory, job):
        return inventory
    with turn(context) as waited:
        if waited:
            inventory = read_inventory(context.project, inventory.path)
        return _make_ready(context, inventory, job, force)


def _is_ready(context: Context, inventory: Inventory, job: Job) -> bool:
    stale = find_staleness(context.project, inventory, job.min_nodes)
    return not stale.reasons and _missing_dataset(context, inventory, job) is None


def _missing_dataset(context: Context, inventory: Inventory, job: Job) -> str | None:
    """Return the data set that is to be put on nodes of ours."""
    record = read_record(context.project, inventory)
    # A folder that the nodes have is theirs: it is not put there.
    if not inventory.container_hosts or job.dataset is None or is_folder(job.dataset):
        return None
    return None if record is not None and job.dataset in record.datasets else job.dataset


def _make_ready(context: Context, inventory: Inventory, job: Job, force: bool) -> Inventory:
    project, console = context.project, context.console
    stale = find_staleness(project, inventory, job.min_nodes)
    reasons = stale.reasons
    ours = bool(inventory.container_hosts)
    if reasons and not ours:
        raise ClusterError(
            f"{project.shown(inventory.path)} is not set up: {'; '.join(reasons)}\n"
            f"run: {addressed('make setup', project, inventory.path)}"
        )
    if stale.image_alone and not force:
        console.print(f"Making the trainer image anew: {escape('; '.join(reasons))}")
        try:
            deliver_image(context, inventory)
        except SomeNodesError as error:
            console.print(escape(str(error)))
            force = True
        else:
            reasons = ()
    if reasons or force:
        console.print(f"Setting up: {escape('; '.join(reasons) or 'a node is not fit')}")
        if force:
            # The nodes are not as was noted. What is noted of their data is in doubt, too.
            forget_setup(project, inventory.path)
        inventory = run_setup(context, inventory, job.min_nodes)
    dataset = _missing_dataset(context, inventory, job)
    if dataset is not None:
        own = read_own_data(project, inventory).get(dataset)
        try:
            if own is None:
                _put(context, inventory, dataset)
            else:
                console.print(f"Putting {escape(own.name)} on the nodes, from {escape(own.shown)}")
                _put_again(context, inventory, own)
        except UnreachableError:
            if force:
                raise
            console.print(CHANGED)
            return _make_ready(context, inventory, job, force=True)
    return inventory


def mended(
    context: Context, inventory: Inventory, job: Job, packages: Packages | None, outcome: Outcome
) -> bool:
    """Mend what kept a launch from starting, where that is ours to do."""
    try:
        if packages is not None and lacks_image_alone(outcome):
            context.console.print("A node does not have the image with the packages.")
            forget_packages(context.project, inventory)
        elif setup_would_help(inventory, outcome):
            context.console.print(CHANGED)
            make_ready(context, inventory, job, force=True)
        else:
            return False
        if packages is not None:
            deliver_packages(context, inventory, packages)
    except (ClusterError, Interrupted) as error:
        context.console.print(escape(str(error)))
        return False
    return True


def lacks_image_alone(outcome: Outcome) -> bool:
    """Whether a launch failed because nodes do not hold the image, and for nothing else."""
    codes = {problem.code for failure in outcome.failures for problem in failure.problems}
    return codes == {IMAGE_MISSING}


def _put(context: Context, inventory: Inventory, dataset: str) -> None:
    """Put a data set on nodes; a training takes no file of it."""
    try:
        put_dataset(context, inventory, dataset)
    except UnreachableError:
        raise  # with no word of its files: it is not they that are missing
    except ClusterError as error:
        command = addressed(f"make data DATASET={dataset}", context.project, inventory.path)
        raise ClusterError(
            f"{error}\nto bring its files yourself, run: {command} SOURCE=path"
        ) from error


def _put_again(context: Context, inventory: Inventory, own: OwnData) -> None:
    """Put data of the user's own on nodes that are new."""
    try:
        put_own_data(context, inventory, own, kept=True)
    except RequestError as error:
        raise ClusterError(
            f"the nodes do not have {own.name}, and it cannot be fetched again:\n{error}\n"
            "once it can be fetched, run: "
            f"{addressed(own.command, context.project, inventory.path)}"
        ) from error


def setup_would_help(inventory: Inventory, outcome: Outcome) -> bool:
    """Whether a launch failed on nodes that set-up can make again: a machine was rebooted, say."""
    return bool(inventory.container_hosts) and any(
        failure.unreachable or any(problem.code in MENDED_BY_SETUP for problem in failure.problems)
        for failure in outcome.failures
    )
