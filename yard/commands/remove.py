"""`make remove`: takes from machines what set-up put there, and forgets them here."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from yard.core.context import Context
from yard.core.errors import ClusterError, Exit, RequestError
from yard.core.project import Project
from yard.core.words import plural
from yard.operations.setup import run_operation
from yard.operations.state import ask_nodes
from yard.plays.inventory import NATIVE, Inventory, read_inventory
from yard.plays.remedy import addressed
from yard.runs.cluster_state import UNREACHABLE, ClusterState
from yard.runs.setup_record import read_record
from yard.screen.question import confirm

# What playbooks/remove.yml is asked for. Data sets are no part of `all`.
ALL, DATASET = "all", "dataset"
# Where an account without root has its files unless an inventory says otherwise
# (group_vars/all/runtime.yml): in its home, a folder for each machine.
NATIVE_ROOT, NATIVE_HOME = ".trainyard/{{ inventory_hostname }}", "~/.trainyard"
# A place that may stand behind rm: a shell takes it as it is, and it is no home and not /.
PLAIN = re.compile(r"~?(?:/(?!\.{1,2}(?:/|$))[\w.-]+)+")
STAYS = """\
What stays here: runs/, the logs of commands, the inventory, .venv, and what other inventories
use as well: images and archives (make clean-up names those that nothing needs)."""


def remove(context: Context, with_data: bool, yes: bool, on: Sequence[str] = ()) -> Exit:
    """Take all roles from the nodes, after a look and a question, and forget them here.

    Args:
        on: names of nodes or groups, or patterns; none means all, which are forgotten here then.

    Raises:
        RequestError: there is no such node, a run is on one, the nodes are containers or have been
            set up without root, or the answer was no.
        ClusterError: no machine answers, or a task failed; it has been shown. Running it again
            goes on.
        Interrupted: the user stopped it. Running it again goes on.
    """
    project = context.project
    inventory = read_inventory(project, context.inventory)
    if inventory.container_hosts:
        down = addressed("make local-down", project, inventory.path)
        raise RequestError(
            f"the nodes of {project.shown(inventory.path)} are containers: {down} removes them"
        )
    leaving = inventory.select(on)
    state = ask_nodes(context)
    _check_idle(state, leaving)
    silent = [n.host for n in state.nodes if n.state == UNREACHABLE and n.host in leaving]
    if len(silent) == len(leaving):
        doctor = addressed("make doctor", project, inventory.path)
        raise ClusterError(f"no machine answers: {doctor} tells why; nothing was changed")
    if inventory.runtime == NATIVE:
        raise RequestError(
            "without root (RUNTIME=native) set-up made one folder of the account on each node, "
            "and nothing else; what removes it with all that is in it:",
            *_native_ways(project, inventory, leaving),
        )
    answering = [host for host in leaving if host not in silent]
    all_of_them = leaving == inventory.trainers
    _announce(context, leaving, silent, with_data, all_of_them)
    confirm(context, f"Remove all of it from {plural(len(answering), 'machine')}?", yes)
    asked: dict[str, Any] = {"remove_roles": ALL}
    if with_data:
        record = read_record(project, inventory)
        names = {*inventory.datasets, *(record.datasets if record else ())}
        asked = {"remove_roles": f"{ALL},{DATASET}", "remove_datasets": sorted(names)}
    run_operation(context, "remove", asked, limit=answering)
    # With machines that did not answer it may be needed again: they have what set-up put there.
    if silent:
        context.console.print(
            f"\n{', '.join(silent)} did not answer, so what set-up put there is still there. Give "
            "the command again when it is back.",
            markup=False,
        )
    elif all_of_them:
        _forget(project, inventory.path)
    else:
        setup = addressed("make setup", project, inventory.path)
        context.console.print(
            f"\nNext: take {', '.join(leaving)} out of {project.shown(inventory.path)}, host_vars "
            f"too, then {setup}: it takes the names and keys away from all other machines.",
            markup=False,
        )
    context.console.print(f"\n{STAYS}", markup=False)
    return Exit.DONE


def _native_ways(project: Project, inventory: Inventory, leaving: Sequence[str]) -> list[str]:
    """What is left to do where there is no root: a line for all nodes, or for those of a place."""
    hosts: dict[str, list[str]] = {}
    for host in leaving:
        hosts.setdefault(inventory.native_roots.get(host, ""), []).append(host)
    ways = []
    for said, there in hosts.items():
        place = _native_place(said)
        if place is None:
            ways.append(f"    on {', '.join(there)}, by hand: trainyard_native_root, {said}")
            continue
        command = f"make exec CMD='rm -r {place}'"
        if there != list(inventory.trainers):
            command += f" ON={','.join(there)}"
        ways.append(f"    {addressed(command, project, inventory.path)}")
    return ways


def _native_place(said: str) -> str | None:
    """The folder that `trainyard_native_root` names; None where that cannot be told from here."""
    if said in ("", NATIVE_ROOT):
        return NATIVE_HOME
    place = (said if said.startswith(("/", "~")) else f"~/{said}").rstrip("/")
    return place if PLAIN.fullmatch(place) else None


def _forget(project: Project, inventory: Path) -> None:
    """Remove what is remembered of an inventory, but for the logs of its commands."""
    for path in project.state(inventory).iterdir():
        if path == project.logs(inventory):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _check_idle(state: ClusterState, hosts: Sequence[str]) -> None:
    """See that nobody trains on these hosts."""
    held = [
        f"{run.run} is on {', '.join(run.hosts)}"
        + (f", of {run.owner}" if run.owner else "")
        + f": make stop RUN={run.run} ends it and brings its files home"
        for run in state.runs
        if set(run.hosts) & set(hosts)
    ]
    if held:
        raise RequestError(*held, "nothing was changed")


def _announce(
    context: Context,
    hosts: Sequence[str],
    silent: Sequence[str],
    with_data: bool,
    all_of_them: bool,
) -> None:
    data = "the data sets with them" if with_data else "data sets stay there (DATA=1 removes them)"
    lines = [
        f"From {', '.join(hosts)}: what the roles of playbooks/nodes.yml put there, "
        f"trainer images and the files of runs; {data}.",
    ]
    if all_of_them:
        lines.append(
            "From here: what is remembered of these machines, and the keys that set-up made for "
            "them."
        )
    if silent:
        lines.append(f"{', '.join(silent)}: no answer, so nothing is removed there.")
    context.console.print("\n".join(lines), markup=False)
