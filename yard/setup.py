"""Set-up of the cluster: is it needed, run it, remember that it was done."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from yard.context import Context
from yard.errors import ClusterError, Interrupted
from yard.files import read_json, write_json
from yard.fingerprint import changed_files, fingerprint_inventory, fingerprint_sources
from yard.inventory import Inventory, read_inventory
from yard.playbook import Event, Outcome, run_playbook
from yard.progress import Progress, make_progress
from yard.project import Project


@dataclass(frozen=True)
class SetupRecord:
    """What the last successful set-up left behind, `.trainyard/<inventory>/setup.json`.

    Attributes:
        when: ISO 8601, UTC.
        nodes: members of group `trainers` afterwards.
        datasets: data sets put on these nodes since.
        fingerprint: checksums of what set-up read, by file.
    """

    when: str
    nodes: tuple[str, ...]
    datasets: tuple[str, ...]
    fingerprint: Mapping[str, str]


def read_record(project: Project, inventory: Inventory) -> SetupRecord | None:
    """Read the record of the last set-up; None when there was none."""
    document = read_json(_record_file(project, inventory))
    if document is None:
        return None
    lists = {name: tuple(document[name]) for name in ("nodes", "datasets")}
    return SetupRecord(**{**document, **lists})


def forget_setup(project: Project, inventory: Inventory) -> None:
    """Remove the record, because the nodes it speaks of are gone or new."""
    _record_file(project, inventory).unlink(missing_ok=True)


def setup_reasons(project: Project, inventory: Inventory, nodes: int) -> list[str]:
    """Why set-up has to run before `nodes` nodes can train; empty when it has not."""
    if len(inventory.trainers) < nodes:
        return [f"there are {len(inventory.trainers)} of {nodes} nodes"]
    record = read_record(project, inventory)
    if record is None:
        return ["it has not been done from this checkout"]
    now = fingerprint_sources(project) | fingerprint_inventory(inventory.path)
    changed = changed_files(record.fingerprint, now)
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        return [f"{changed[0]}{more} changed since {record.when}"]
    return []


def run_setup(context: Context, inventory: Inventory, nodes: int | None) -> Inventory:
    """Run site.yml with a display and record its success.

    Args:
        nodes: how many nodes the local cluster shall have at least; nothing else is resized.

    Returns:
        The inventory as it is afterwards, with the nodes that were made.

    Raises:
        ClusterError: a task failed; it has been shown.
        Interrupted: the user stopped it. Running it again continues.
    """
    project = context.project
    forget_setup(project, inventory)
    sources = fingerprint_sources(project)
    extravars: dict[str, Any] = {}
    if inventory.max_nodes is not None:
        # Set-up is told the size each time, so that it never shrinks a cluster that was grown.
        wanted = nodes if nodes is not None else inventory.cluster_size or 1
        extravars["local_cluster_size"] = max(wanted, len(inventory.trainers))
    outcome = run_operation(context, project.root / "site.yml", "setup", extravars)
    for host, stats in sorted(outcome.stats.items()):
        context.console.print(f"{host} changed={stats.changed} ok={stats.ok} failed={stats.failed}")
    after = read_inventory(project, inventory.path)
    record = SetupRecord(
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        nodes=after.trainers,
        datasets=(),
        fingerprint=sources | fingerprint_inventory(inventory.path),
    )
    write_json(_record_file(project, inventory), asdict(record))
    return after


def put_dataset(
    context: Context, inventory: Inventory, dataset: str, source: str | None = None
) -> None:
    """Run playbooks/data.yml and remember which nodes have the data set.

    Raises:
        ClusterError: a task failed; it has been shown.
        Interrupted: the user stopped it.
    """
    extravars = {"dataset_name": dataset}
    if source:
        extravars["dataset_source"] = source
    project = context.project
    run_operation(context, project.playbook("data"), "data", extravars)
    record = read_record(project, inventory)
    if record is not None:
        datasets = tuple(dict.fromkeys((*record.datasets, dataset)))
        write_json(_record_file(project, inventory), asdict(replace(record, datasets=datasets)))


def run_operation(
    context: Context, playbook: Path, name: str, extravars: Mapping[str, Any]
) -> Outcome:
    """Run a playbook that is not a training, one phase a play; its output goes to a log file.

    What its debug tasks say is shown at the end.

    Raises:
        ClusterError: a task failed; host, task and message have been shown.
        Interrupted: the user stopped it.
    """
    project, interrupts = context.project, context.interrupts
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    log = project.state(context.inventory) / "log" / f"{name}-{stamp}.log"
    said: list[str] = []

    def follow(event: Event) -> None:
        _show(progress, event)
        # What a role has to say to people: that a reboot is due, that there was nothing to do.
        if event.kind == "runner_on_ok" and event.action.endswith("debug"):
            said.append(str(event.result.get("msg", "")))

    with make_progress(context.console) as progress:
        interrupts.announce = lambda count: progress.task("stopping")
        outcome = run_playbook(
            project,
            playbook,
            context.inventory,
            extravars,
            log,
            follow,
            lambda: interrupts.requested,
        )
        if not outcome.ok:
            progress.fail()
    for message in said:
        context.console.print(escape(message), soft_wrap=True)
    if outcome.status == "cancelled":
        raise Interrupted(f"interrupted; {project.shown(log)} has what was done")
    if not outcome.ok:
        show_failures(context.console, outcome)
        raise ClusterError(f"{playbook.name} failed; the whole output is in {project.shown(log)}")
    return outcome


def show_failures(console: Console, outcome: Outcome) -> None:
    """Print which task failed on which host, and what it said."""
    for failure in outcome.failures:
        task = f"{failure.role} : {failure.task}" if failure.role else failure.task
        console.print(f"[red bold]{escape(failure.host)}[/]  {escape(task)}", soft_wrap=True)
        for line in failure.message.splitlines():
            console.print(f"    {escape(line)}", soft_wrap=True)


def _show(progress: Progress, event: Event) -> None:
    if event.kind == "playbook_on_play_start":
        progress.phase(event.play)
    elif event.task:
        progress.task(f"{event.role} : {event.task}" if event.role else event.task)


def _record_file(project: Project, inventory: Inventory) -> Path:
    return project.state(inventory.path) / "setup.json"
