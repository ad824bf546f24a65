"""A launch by playbooks/train.yml alone: its run is begun and recorded as that of `make train`.

The plugins beside the playbooks call this: the action `begin_run` from its first task, the callback
`record_run` for everything that happens until the playbook ends.
"""

import shlex
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.markup import escape

from yard.code.program import split_program
from yard.code.requirements import NONE
from yard.code.snapshot import FOLDER
from yard.core.console import ForeignTextConsole
from yard.core.context import Context
from yard.core.errors import RequestError
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.operations.ending import finish
from yard.operations.launch import RunFollower
from yard.operations.packages import keep_code
from yard.plays.contract import launch_variables
from yard.plays.events import FailureRecord, Outcome, parse_event
from yard.plays.inventory import Inventory, read_inventory
from yard.plays.remedy import addressed
from yard.request.job import Job, Request
from yard.request.own_code import ProjectRequest, ProjectRun, resolve_project
from yard.request.parse import as_number
from yard.request.resolve import resolve
from yard.request.training import ALL_IMAGES, TrainRequest
from yard.runs.failure_rate import expected_failures
from yard.runs.folder import create_run, followed
from yard.runs.manifest import new_manifest, read_manifest, write_manifest
from yard.screen.plain_progress import PlainProgress

PREFIX = "training_run_"
# What a request calls the launch role's variables; what is not here goes to the role as it is.
OF_ALL = {
    "node_count": "nodes",
    "node_minimum": "min_nodes",
    "gpus_per_node": "gpus_per_node",
    "procs_per_node": "procs_per_node",
    "dataset": "dataset",
    "transport": "transport",
    "stall_seconds": "stall",
}
OF_THE_TRAINER = {
    "epochs": "epochs",
    "batch_per_rank": "batch",
    "learning_rate": "lr",
    "precision": "precision",
    "engine": "engine",
    "train_images": "train_images",
    "checkpoint_seconds": "checkpoint_seconds",
    "options": "options",
}
OF_A_PROJECT = {"program_per": "launch", "grace_seconds": "grace"}
WITHOUT_RECORD = (
    "    -e training_run_id=NAME -e training_run_collect_dir=/an/empty/folder trains without one"
)


def begin(root: Path, inventories: list[str], typed: Mapping[str, Any]) -> dict[str, Any]:
    """Make the run of a launch: its folder, its manifest, and of a project the copy that runs.

    Args:
        inventories: as the playbook was given them.
        typed: the launch role's variables that `-e` gave, by name.

    Returns:
        Further variables for the launch. Ansible lets those of `-e` win.

    Raises:
        RequestError: the request makes no sense; nothing has been touched.
    """
    project = Project(root)
    if len(inventories) != 1:
        raise RequestError(
            f"{len(inventories)} inventories: a run's record names one, by which make attach "
            "and make stop find its nodes; put them into one folder",
            WITHOUT_RECORD,
        )
    if typed.get(f"{PREFIX}id"):
        raise RequestError(f"{PREFIX}id: a run that is recorded gets an id", WITHOUT_RECORD)
    inventory = read_inventory(project, Path(inventories[0]))
    request, job = _resolved(project, inventory, _asked(typed))
    run = create_run(project.runs, job)
    variables = {**job.extravars(), **launch_variables(run.name, str(run))}
    code = None
    if isinstance(job, ProjectRun):
        code = keep_code(run, job, None)
        variables["training_run_snapshot"] = str(run / FOLDER)
    else:
        variables |= expected_failures(project.runs, job.nodes)
    manifest = new_manifest(project, inventory, request, job, run.name, time.time(), code)
    write_manifest(run, manifest)
    return {**variables, "training_run_manifest": manifest.to_json()}


def _asked(typed: Mapping[str, Any]) -> dict[str, Any]:
    """The launch role's variables, without their prefix; `-e name=value` makes texts of numbers."""
    return {
        name.removeprefix(PREFIX): yaml.safe_load(value) if isinstance(value, str) else value
        for name, value in typed.items()
    }


def _resolved(
    project: Project, inventory: Inventory, asked: Mapping[str, Any]
) -> tuple[Request, Job]:
    """What was asked for, and what it comes to: as `make train` takes it."""
    names = {**OF_ALL, **(OF_A_PROJECT if asked.get("code") else OF_THE_TRAINER)}
    said = {names[name]: value for name, value in asked.items() if name in names}
    # Whole nodes, to the role.
    said["gpus_per_node"] = said.get("gpus_per_node") or None
    if asked.get("code"):
        if "program" in asked:
            said |= dict(zip(("entry", "script_args"), _program(asked["program"]), strict=True))
        project_request = ProjectRequest(code=asked["code"], requirements=NONE, **said)
        return project_request, resolve_project(project_request, inventory, project)
    if "train_images" in asked and asked["train_images"] is None:
        said["train_images"] = ALL_IMAGES
    if "lr" in said:
        said["lr"] = as_number(said["lr"])
    model = str(asked.get("model") or inventory.defaults.get("model") or "vit")
    request = TrainRequest(model=model, **said)
    return request, resolve(request, inventory)


def _program(value: Any) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) < 2:
        raise RequestError(
            f"training_run_program {value!r}: must be a list, as in "
            """-e '{"training_run_program": ["python3", "train.py"]}'"""
        )
    entry, arguments = split_program([str(word) for word in value])
    return entry, shlex.join(arguments)


class Record:
    """The record of a run while its playbook goes on; no other command follows it meanwhile."""

    def __init__(self, root: Path, run: Path) -> None:
        manifest = read_manifest(run)
        if manifest is None:
            raise RequestError(f"{run.name}: its manifest.json is gone")
        console = ForeignTextConsole(highlight=False, soft_wrap=True)
        inventory = Path(manifest.inventory_path)
        self.run = run
        self._context = Context(Project(root), inventory, console, Interrupts())
        self._lock = ExitStack()
        self._lock.enter_context(followed(run))
        self._began_at = manifest.started_at
        self._has_ended = False
        self._failures = FailureRecord()
        # Ansible shows what it does.
        self._progress = PlainProgress(Console(quiet=True))
        self._follower = RunFollower(
            self._context, run, manifest, "train", {}, brings_checkpoints=False
        )
        self._progress.view = self._follower.view
        console.print(f"Run {escape(run.name)}")

    def take(self, raw: Mapping[str, Any]) -> None:
        """Take in an event in the form of ansible-runner."""
        event = parse_event(raw)
        self._failures.take(event, raw["event_data"])
        self._follower.take(event, self._progress, self._began_at)

    def end(self) -> None:
        """Sum the run up, as the playbook has ended, and say how it went."""
        stats = self._failures.stats
        is_well = not any(host.failed or host.unreachable for host in stats.values())
        status = "successful" if is_well else "failed"
        self._follower.note_end(Outcome(status, self._failures.fatal_failures(), stats))
        self._has_ended = True
        with self._lock:
            finish(self._context, self.run)

    def leave(self) -> None:
        """Say what becomes of a run whose playbook was ended before the run."""
        if self._has_ended:
            return
        project, inventory = self._context.project, self._context.inventory
        print(f"{self.run.name} is not over, and what of it runs on its nodes goes on there:")
        for verb, does in (("attach", "follows it to its end"), ("stop", "ends it")):
            command = addressed(f"make {verb} RUN={self.run.name}", project, inventory)
            print(f"    {command}   {does}")
