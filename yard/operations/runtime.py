"""A run is reached as it was started, whatever the command that asks for it was told."""

import os
from pathlib import Path

from yard.core.context import Context
from yard.plays.fingerprint import RUNTIME
from yard.plays.inventory import CONTAINER, NATIVE, read_inventory
from yard.runs.manifest import Manifest


def as_it_ran(context: Context, manifest: Manifest) -> None:
    """Have the playbooks that follow look for a run in containers, or in an account's namespaces.

    Raises:
        RequestError: its inventory is gone, or has mistakes.
    """
    reach_as(
        context, Path(manifest.inventory_path), manifest.configuration.get("runtime", CONTAINER)
    )


def reach_as(context: Context, inventory: Path, ran: object) -> None:
    """The same for what has no manifest.

    Args:
        ran: what keeps its ranks apart from the rest of a node. Another word than one of the two,
            as a node or an earlier version may have it, says nothing.

    Raises:
        RequestError: the inventory is gone, or has mistakes.
    """
    if ran not in (CONTAINER, NATIVE) or ran == (os.environ.get(RUNTIME) or CONTAINER):
        return
    # An inventory that says it itself needs no more words, and set-up would take them for a change.
    if read_inventory(context.project, inventory).runtime != ran:
        os.environ[RUNTIME] = str(ran)
