"""`make setup`, `data`, `rotate-keys`, `local-up` and `local-down`: what changes machines."""

from pathlib import Path
from typing import Any

from yard.core.context import Context
from yard.core.errors import Exit, RequestError
from yard.core.files import read_object
from yard.core.words import plural
from yard.operations.setup import put_dataset, put_own_data, run_operation, run_setup
from yard.operations.turn import turn
from yard.plays.inventory import NATIVE, Inventory, read_inventory
from yard.plays.remedy import addressed
from yard.request.own_data import check_own_data
from yard.request.resolve import check_dataset, check_nodes
from yard.runs.folder import is_followed, list_runs
from yard.runs.measurements import BENCHMARK, REQUEST, VERIFICATION
from yard.runs.setup_record import forget_setup
from yard.screen.result import command_row


def setup(context: Context, nodes: int | None) -> Exit:
    """Prepare the machines; `nodes` is the size of a local cluster, None leaves it as it is."""
    inventory = read_inventory(context.project, context.inventory)
    check_nodes(nodes, inventory)
    with turn(context):
        ready = run_setup(context, inventory, nodes)
    count = len(ready.trainers)
    if count:
        context.console.print(f"[green]Ready[/]: {plural(count, 'node')}. Next:")
        for what, why in (("MODEL=vit", "a model"), ("CODE=folder", "your code")):
            command = f"make train {what} NODES={count}"
            command_row(context.console, why, addressed(command, context.project, ready.path))
    return Exit.DONE


def data(
    context: Context, dataset: str | None, source: str | None, name: str | None, sha256: str | None
) -> Exit:
    """Put a data set on the nodes: a known one, or one of the user's own.

    Args:
        source: path of its archive, or of the folder with its archives; None fetches it. Of the
            user's own, a path or an HTTP address.

    Raises:
        RequestError: it is unknown or cannot be had; no node has been touched.
    """
    inventory = read_inventory(context.project, context.inventory)
    if (dataset is None) == (name is None):
        raise RequestError("data: takes DATASET=, or SOURCE= and NAME= for data of your own")
    if name is not None:
        own = check_own_data(name, source, sha256, inventory)
        with turn(context):
            put_own_data(context, inventory, own)
        return Exit.DONE
    if sha256 is not None:
        raise RequestError("SHA256=: goes with NAME=; the checksums of known data sets are known")
    assert dataset is not None
    check_dataset(dataset, inventory)
    path = Path(source).expanduser().absolute() if source else None
    if path is not None and not path.exists():
        raise RequestError(f"source {source}: no file or folder on this machine")
    with turn(context):
        put_dataset(context, inventory, dataset, path)
    return Exit.DONE


def rotate_keys(context: Context) -> Exit:
    """Give all nodes new keys for each other; logins go on meanwhile."""
    inventory = read_inventory(context.project, context.inventory)
    if inventory.runtime == NATIVE:
        raise RequestError("without root (RUNTIME=native) set-up gives nodes no keys: none is new")
    # A set-up that read the old keys would write them again.
    with turn(context):
        run_operation(context, "rotate_keys", {})
    context.console.print(f"{plural(len(inventory.trainers), 'node')} have new keys for each other")
    return Exit.DONE


def local_up(context: Context, nodes: int | None) -> Exit:
    """Make the local cluster, of `nodes` nodes or as many as the inventory says."""
    inventory = read_inventory(context.project, context.inventory)
    check_nodes(nodes, inventory)
    if nodes is not None and nodes < len(inventory.trainers):
        _check_idle(context, inventory)
    # The nodes may be new ones: what set-up has put on the old says nothing about them.
    forget_setup(context.project, inventory.path)
    extravars: dict[str, Any] = {} if nodes is None else {"local_cluster_size": nodes}
    run_operation(context, "local_up", extravars)
    made = read_inventory(context.project, inventory.path).trainers
    following = addressed("make setup", context.project, inventory.path)
    said = f"{plural(len(made), 'node')}: {', '.join(made)}. Next: {following}"
    context.console.print(said, markup=False)
    return Exit.DONE


def local_down(context: Context) -> Exit:
    """Remove the local cluster."""
    inventory = read_inventory(context.project, context.inventory)
    _check_idle(context, inventory)
    forget_setup(context.project, inventory.path)
    run_operation(context, "local_down", {})
    return Exit.DONE


def _check_idle(context: Context, inventory: Inventory) -> None:
    """See that no command here follows something on nodes that go, with all that is on them.

    The nodes are not asked: they may be what is broken.
    """
    project, place = context.project, str(inventory.path)
    there = [(run, run / "manifest.json", "inventory_path") for run in list_runs(project.runs)]
    there += [
        (directory, directory / REQUEST, "inventory")
        for kind in (VERIFICATION, BENCHMARK)
        for directory in kind.directories(project)
    ]
    held = [
        f"{folder.name} is under way: make stop RUN={folder.name} ends it and brings its files home"
        for folder, record, key in there
        if is_followed(folder) and read_object(record).get(key) == place
    ]
    if held:
        raise RequestError(*held, "nothing was changed")
