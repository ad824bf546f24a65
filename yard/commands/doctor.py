"""`make doctor`: whether this machine and every host are fit for set-up, and what mends them."""

import json
from collections.abc import Sequence

from yard.contact.here import check_here, check_inventory
from yard.contact.report import Contact
from yard.core.context import Context
from yard.core.errors import Exit, RequestError
from yard.operations.first_contact import InventoryFiles, ask_hosts
from yard.plays.connections import Connections, read_connections
from yard.plays.inventory import NATIVE, read_inventory
from yard.screen.contact_view import show_contact


def doctor(context: Context, on: Sequence[str], as_json: bool) -> Exit:
    """Look at this machine, ask every host over SSH, and change nothing.

    Args:
        on: names of hosts; none means all.
        as_json: print one JSON document instead, which docs/first-contact.md describes.

    Raises:
        RequestError: the inventory has mistakes, or there is no such host.
        Interrupted: the user stopped it.
    """
    project = context.project
    # Names mistakes with their lines, which Ansible does not.
    there = read_inventory(project, context.inventory)
    connections = read_connections(project, context.inventory)
    hosts = [host for host in connections.hosts if not on or host.host in on]
    _check_names(connections, on)
    contact = Contact(
        here=(
            *check_here(project, context.inventory),
            check_inventory(
                context.inventory,
                there.nodes,
                InventoryFiles(project, context.inventory).commands("")["edit"],
            ),
        ),
        hosts=ask_hosts(
            project,
            context.inventory,
            connections,
            hosts,
            lambda: context.interrupts.requested,
            root=there.runtime != NATIVE,
        ),
    )
    if as_json:
        # What hosts say is escaped in it, so it cannot steer a terminal.
        print(json.dumps(contact.to_json(), indent=2))
    else:
        show_contact(context.console, contact)
    return Exit.DONE if contact.ok else Exit.UNFIT


def _check_names(connections: Connections, on: Sequence[str]) -> None:
    there = [host.host for host in connections.hosts]
    unknown = [name for name in on if name not in there]
    if unknown:
        raise RequestError(
            [f"no host {', '.join(unknown)}; there are: {', '.join(there) or 'none'}"]
        )
