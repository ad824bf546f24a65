"""`make doctor`: whether this machine, the inventory and every host are fit for set-up."""

import json
import shlex
from collections.abc import Sequence

from yard.contact.causes import Trouble
from yard.contact.here import INVENTORY, Check, check_here
from yard.contact.report import Contact
from yard.core.context import Context
from yard.core.errors import ClusterError, Exit, Interrupted, RequestError
from yard.core.words import plural
from yard.operations.first_contact import InventoryFiles, ask_hosts
from yard.operations.setup import raise_refusal
from yard.plays.connections import Connections, read_connections
from yard.plays.inventory import NATIVE, Inventory, read_inventory
from yard.plays.play import fresh_log, play
from yard.screen.contact_view import show_contact


def doctor(context: Context, locale: str, on: Sequence[str], as_json: bool) -> Exit:
    """Look at this machine and the inventory, ask every host over SSH, and change nothing.

    Args:
        locale: what programs get, in words; see `have_utf8`.
        on: names of hosts; none means all.
        as_json: print one JSON document instead, which docs/first-contact.md describes.
    """
    project = context.project
    # Names what is wrong with files that Ansible cannot read, with their lines.
    there = read_inventory(project, context.inventory)
    connections = read_connections(project, context.inventory)
    hosts = [host for host in connections.hosts if not on or host.host in on]
    _check_names(connections, on)
    contact = Contact(
        here=(
            Check("locale", locale),
            *check_here(project, context.inventory),
            _check_inventory(context, there),
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


def _check_inventory(context: Context, there: Inventory) -> Check:
    """What set-up would refuse the inventory for, all of it; Ansible contacts nobody for it."""
    # Of a local cluster `nodes` are as many as it may have.
    there_are = len(there.trainers if there.container_hosts else there.nodes)
    found = f"{plural(there_are, 'machine')} to train on"
    log = fresh_log(context, "doctor")
    outcome = play(context, "validate", {}, lambda event: None, log=log)
    if outcome.cancelled:
        raise Interrupted("interrupted; nothing was changed anywhere")
    try:
        raise_refusal(outcome, context.inventory)
    except RequestError as refusal:
        _, *mistakes = refusal.problems
        # Each begins with its file, as far as it has one.
        named = dict.fromkeys(mistake.partition(":")[0] for mistake in mistakes)
        files = [name for name in named if (context.project.root / name).is_file()]
        edit = InventoryFiles(context.project, context.inventory).commands("")["edit"]
        values = {
            "count": plural(len(mistakes), "mistake"),
            "edit": f"${{EDITOR:-vi}} {shlex.join(files)}" if files else edit,
        }
        trouble = Trouble("here_inventory", values, tuple(mistakes))
        return Check(INVENTORY, values["count"], trouble)
    if not outcome.ok:
        raise ClusterError(f"the check of the inventory failed; see {context.project.shown(log)}")
    return Check(INVENTORY, found)


def _check_names(connections: Connections, on: Sequence[str]) -> None:
    there = [host.host for host in connections.hosts]
    unknown = [name for name in on if name not in there]
    if unknown:
        raise RequestError(f"no host {', '.join(unknown)}; there are: {', '.join(there) or 'none'}")
