"""Runs the playbooks that change machines: set-up, the data sets, the local cluster."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from rich.markup import escape

from yard.core.context import Context
from yard.core.errors import (
    ClusterError,
    Interrupted,
    RequestError,
    SomeNodesError,
    UnreachableError,
)
from yard.core.project import Project
from yard.core.words import first_names
from yard.plays.contract import (
    AGREE,
    DECODE_DATA,
    HAVE_OWN_DATA,
    INVENTORY_CHECK,
    LAST_OF_SETUP,
    RUN_CONTAINER,
    SAY,
    SETTLE_DATA,
    STAGE_DATA,
)
from yard.plays.events import Event, Outcome, TaskFailure, shortened
from yard.plays.fingerprint import fingerprint_inventory, fingerprint_sources, inventory_files
from yard.plays.inventory import VAULT, Inventory, read_inventory
from yard.plays.play import dated_log, play
from yard.plays.remedy import addressed
from yard.request.own_data import OwnData, note_own_data
from yard.runs.setup_record import (
    SetupRecord,
    forget_setup,
    note_image,
    note_on_nodes,
    read_record,
    write_record,
)
from yard.screen.failures import point_to_doctor, show_failures
from yard.screen.live_progress import make_progress
from yard.screen.progress import Progress

# This machine, as plays name it.
HERE = "localhost"
# Names of settings that hold a password, in messages of Ansible and in files of an inventory.
PASSWORD = re.compile(r"become_pass|ansible_(?:ssh_)?pass|password")


def run_setup(context: Context, inventory: Inventory, nodes: int | None) -> Inventory:
    """Run site.yml with a display and record its success.

    Where it changed nothing, and reads what it read last time, the nodes have the data sets that
    they had before.

    Args:
        nodes: how many nodes the local cluster shall have at least; nothing else is resized.

    Returns:
        The inventory as it is afterwards, with the nodes that were made.
    """
    project = context.project
    before = read_record(project, inventory)
    forget_setup(project, inventory.path)
    sources = fingerprint_sources(project)
    extravars: dict[str, Any] = {}
    if inventory.max_nodes is not None:
        # Set-up is told the size each time, so that it never shrinks a cluster that was grown.
        size = nodes if nodes is not None else inventory.cluster_size or 1
        extravars["local_cluster_size"] = max(size, len(inventory.trainers))
    ready: set[str] = set()

    def note(event: Event) -> None:
        if event.play == LAST_OF_SETUP and event.kind == "runner_on_ok":
            ready.add(event.host)

    try:
        outcome = run_operation(context, "setup", extravars, take=note)
    except SomeNodesError as error:
        # Machines that went through to the end can train; those of a local cluster are made anew.
        done = tuple(host for host in inventory.trainers if host in ready - error.failed)
        if done and not inventory.container_hosts:
            _record(project, inventory, before, done, sources)
            passes = f"{addressed('make setup', project, inventory.path)} passes"
            context.console.print(
                f"{', '.join(done)} can train; the others are left out until {passes}",
                markup=False,
            )
        raise
    for host, stats in sorted(outcome.stats.items()):
        context.console.print(f"{host} changed={stats.changed} ok={stats.ok} failed={stats.failed}")
    changed = any(stats.changed for stats in outcome.stats.values())
    after = read_inventory(project, inventory.path)
    _record(project, inventory, None if changed else before, after.trainers, sources)
    return after


def _record(
    project: Project,
    inventory: Inventory,
    before: SetupRecord | None,
    nodes: tuple[str, ...],
    sources: Mapping[str, str],
) -> None:
    """Write down which nodes are set up."""
    fingerprint = {**sources, **fingerprint_inventory(inventory.path)}
    # Where it reads something else, that may be how a data set is made.
    known = before is not None and before.fingerprint == fingerprint
    record = SetupRecord(
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        nodes=nodes,
        datasets=before.datasets if before and known else (),
        fingerprint=fingerprint,
    )
    write_record(project, inventory, record)


def deliver_image(context: Context, inventory: Inventory) -> None:
    """Build the trainer image and bring it to the nodes, which set-up has made, and record it.

    Raises:
        SomeNodesError: a task failed on some nodes alone, or one does not answer.
    """
    sources = fingerprint_sources(context.project)
    run_operation(context, "trainer_image", {})
    note_image(context.project, inventory, sources)


def put_dataset(
    context: Context, inventory: Inventory, dataset: str, source: Path | None = None
) -> None:
    """Run playbooks/data.yml and remember which nodes have the data set."""
    extravars = {"dataset_name": dataset}
    if source is not None:
        extravars["dataset_source"] = str(source)
    _put(context, inventory, extravars)
    note_on_nodes(context.project, inventory, "datasets", dataset)


def put_own_data(context: Context, inventory: Inventory, data: OwnData, kept: bool = False) -> None:
    """Run playbooks/data.yml for data of a user's own, and remember it.

    Args:
        kept: take what was fetched from its address before.

    Raises:
        RequestError: it cannot be had, or cannot be sent as it is; no node has been touched.
    """
    _put(context, inventory, data.extravars(kept))
    note_own_data(context.project, inventory, data)
    note_on_nodes(context.project, inventory, "datasets", data.name)


def _put(context: Context, inventory: Inventory, variables: Mapping[str, Any]) -> None:
    """Run playbooks/data.yml; where some nodes do not get the data, say which have it."""
    have: set[str] = set()
    decoding = False

    def note(event: Event) -> None:
        nonlocal decoding
        if Path(event.task_file).parts[-3:] == DECODE_DATA and event.module == RUN_CONTAINER:
            decoding = event.kind != "runner_on_ok"
        complete = event.module == STAGE_DATA and event.result.get("complete") is True
        if event.kind == "runner_on_ok" and (complete or event.module == SETTLE_DATA):
            have.add(event.host)

    try:
        run_operation(context, "data", variables, take=note)
    except Interrupted:
        if decoding:
            log = dated_log(context, "data_end")
            ended = play(context, "data_end", variables, note, log=log, to_its_end=True).ok
            said = "was ended" if ended else f"goes on here: {context.project.shown(log)}"
            context.console.print(f"The decoding {said}", markup=False)
        raise
    except ClusterError:
        if have:
            hosts = ", ".join(host for host in inventory.trainers if host in have)
            said = f"has it: {hosts}" if len(have) == 1 else f"have it: {hosts}"
            context.console.print(said, markup=False)
        raise


def run_operation(
    context: Context,
    playbook: str,
    extravars: Mapping[str, Any],
    *,
    inventory: Path | None = None,
    take: Callable[[Event], None] = lambda event: None,
    limit: Sequence[str] = (),
) -> Outcome:
    """Run a playbook that is not a training, one phase a play; its output goes to a log file.

    What its debug tasks say is shown at the end.

    Args:
        inventory: None means the one the command was given.
        limit: hosts to run on; none means all.

    Raises:
        RequestError: the inventory has mistakes, or data cannot be had; no machine was contacted.
        UnreachableError: a node does not answer; it has been shown.
        SomeNodesError: a task failed on some nodes and not on the others; as below.
        ClusterError: a task failed; host, task and message have been shown.
    """
    project, interrupts = context.project, context.interrupts
    log = dated_log(context, playbook, inventory)
    messages: list[str] = []
    jobs: set[str] = set()
    under_way: dict[str, str] = {}
    roles: list[str] = []

    def follow(event: Event) -> None:
        if event.kind == "playbook_on_play_start":
            roles[:] = roles_of(project, event.play)
        _show(progress, event, roles)
        _note_job(jobs, event)
        if event.kind == "runner_on_start":
            under_way[event.host] = event.task
        elif event.kind.startswith("runner_on_"):
            under_way.pop(event.host, None)
        wait = wait_for_apt(event)
        if wait:
            progress.note(wait)
        take(event)
        if event.kind == "runner_on_ok" and event.module == SAY:
            messages.append(str(event.result.get("msg", "")))

    with make_progress(context.console) as progress:
        interrupts.announce = lambda: progress.task("stopping")
        outcome = play(
            context, playbook, extravars, follow, log=log, inventory=inventory, limit=limit
        )
        if not outcome.ok:
            progress.fail()
            for job in jobs:
                progress.phase("Ending the build of the image")
                variables = {"trainer_image_job": job}
                play(context, "trainer_image_end", variables, take, log=log, to_its_end=True)
                messages.append("The build of the image was ended; the next one goes on from there")
    for message in messages:
        context.console.print(escape(message))
    if outcome.cancelled:
        raise Interrupted(f"interrupted; {project.shown(log)} has what was done{_left(under_way)}")
    raise_refusal(outcome, inventory or context.inventory)
    if not outcome.ok:
        show_failures(context, outcome, inventory)
        if any(failure.unreachable for failure in outcome.failures):
            point_to_doctor(context.console, project, inventory or context.inventory)
        error = _kind(outcome)(
            f"{project.playbook(playbook).name} failed; the whole output is in {project.shown(log)}"
        )
        if isinstance(error, SomeNodesError):
            error.failed = frozenset(failure.host for failure in outcome.failures)
        raise error
    return outcome


def _kind(outcome: Outcome) -> type[ClusterError]:
    """What a failure is: of some nodes, which the rest can do without, or of all."""
    if any(failure.unreachable for failure in outcome.failures):
        return UnreachableError
    failed = {failure.host for failure in outcome.failures}
    nodes = outcome.stats.keys() - {HERE}
    whole = {host for host in nodes - failed if not outcome.stats[host].failed}
    return SomeNodesError if whole and failed <= nodes else ClusterError


def raise_refusal(outcome: Outcome, inventory: Path) -> None:
    """Say it where a playbook refused the inventory, or the data that a user brings.

    Raises:
        RequestError: the inventory has mistakes, or the data cannot be had; no machine was
            contacted.
    """
    for failure in outcome.failures:
        if failure.role == INVENTORY_CHECK or Path(failure.task_file).parts[-3:] == HAVE_OWN_DATA:
            raise RequestError(*failure.message.splitlines(), *about_braces(failure, inventory))


def about_braces(failure: TaskFailure, inventory: Path) -> list[str]:
    """What Ansible's message lacks where a password was taken for a template: file and remedy."""
    if "in template" not in failure.message or not PASSWORD.search(failure.message):
        return []
    texts = {path: path.read_bytes() for path in inventory_files(inventory)}
    files = [
        str(path)
        for path, text in texts.items()
        if text.startswith(VAULT) or PASSWORD.search(text.decode(errors="replace"))
    ]
    return [
        'A password with "{{" or "{%" in it is taken for a template. Write it as '
        f'!unsafe "the password", where it stands: {", ".join(files) or "in the inventory"}'
    ]


def wait_for_apt(event: Event) -> str:
    """What to say of an event where a node installs packages already; "" for nothing."""
    held = event.result.get("apt") if event.module == AGREE else None
    if not isinstance(held, str) or not held:
        return ""
    return f"{event.host}: {shortened(held)} has apt's lock; what is installed waits for it"


def _left(under_way: Mapping[str, str]) -> str:
    """Say what machines were doing: a package that is being installed, say, goes on there."""
    there = [host for host in under_way if host != HERE]
    if not there:
        return ""
    tasks = ", ".join(dict.fromkeys(f'"{under_way[host]}"' for host in there))
    return f". On {first_names(there, 3)} this may go on to its end: {tasks}"


def _note_job(jobs: set[str], event: Event) -> None:
    """Note what Ansible began here and does not end with its playbook, until it has ended."""
    job = event.result.get("ansible_job_id")
    if isinstance(job, str) and event.host == HERE and event.kind == "runner_on_ok":
        # That its file was removed tells neither.
        goes_on = not event.result.get("finished") and "erased" not in event.result
        (jobs.add if goes_on else jobs.discard)(job)


def roles_of(project: Project, play: str) -> list[str]:
    """The roles of a play in their order, as the checkout's playbooks have them."""
    roles: list[str] = []
    for path in sorted((project.root / "playbooks").glob("*.yml")):
        text = path.read_text(encoding="utf-8")
        if play not in text:  # to read all of them as YAML takes a tenth of a second
            continue
        plays = yaml.load(text, yaml.BaseLoader)
        for entry in plays if isinstance(plays, list) else ():
            if entry.get("name") == play:
                named = [*entry.get("roles", ()), *entry.get("vars", {}).get("setup_roles", ())]
                tasks = [task for task in entry.get("tasks", ()) if task.get("tags") != ["never"]]
                # One that a task before or after asks does its work where it is named.
                asked = {_role_of(task) for task in named}
                before, after = (
                    [task for task in each if _role_of(task) not in asked]
                    for each in (entry.get("pre_tasks", ()), tasks)
                )
                roles += filter(None, map(_role_of, [*before, *named, *after]))
    # Of two tasks the later one does the work.
    return list(dict.fromkeys(reversed(roles)))[::-1]


def _role_of(task: Any) -> str | None:
    """The role that a task of a play, or an entry of its roles, is."""
    if not isinstance(task, Mapping):
        return str(task)
    included = [
        value for key, value in task.items() if key.endswith(("include_role", "import_role"))
    ]
    name = included[0].get("name") if included else task.get("role")
    # One that a loop names is in the list by itself.
    return None if name is None or "{" in str(name) else str(name).rpartition(".")[2]


def _show(progress: Progress, event: Event, roles: Sequence[str]) -> None:
    # Not where a play begins: one that concerns no host is none that anybody waits for.
    if event.task:
        progress.phase(event.play)
        role = event.role.rpartition(".")[2]
        place = f" {roles.index(role) + 1}/{len(roles)}" if role in roles and roles[1:] else ""
        progress.task(f"{event.role}{place} : {event.task}" if event.role else event.task)
