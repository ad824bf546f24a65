"""What runs where, asked of the nodes."""

import json

from yard.core.context import Context
from yard.core.errors import Exit
from yard.operations.state import ask_nodes
from yard.screen.cluster_tables import show_cluster


def show_status(context: Context, as_json: bool = False) -> Exit:
    """Print a line for every node and every run, and the runs that no node knows.

    Args:
        as_json: print one JSON document instead, which docs/run.md describes.
    """
    state = ask_nodes(context)
    if as_json:
        # What nodes say is escaped in it, so it cannot steer a terminal.
        print(json.dumps(state.to_json(), indent=2))
    else:
        show_cluster(context.console, context.project, context.inventory, state)
    return Exit.DONE
