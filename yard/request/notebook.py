"""A request for a notebook on a node, checked against what there is."""

import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from yard.code.settings import NODE, Settings
from yard.code.snapshot import Snapshot
from yard.core.errors import RequestError
from yard.core.project import Project
from yard.plays.inventory import Inventory
from yard.request.notebook_defaults import IDLE_MINUTES, MOST_MINUTES, NOTEBOOKS
from yard.request.own_code import ProjectRequest, ProjectRun, resolve_project
from yard.request.values import listed

# Below the checkout: the file that the folder of a node begins with.
FIRST = Path("examples/notebook/start.ipynb")
# What becomes the server on the node; the trainer lies there.
PROGRAM = ("python3", "-P", "/opt/trainyard/lib/trainer/launch/notebook.py")
# From SIGTERM to SIGKILL: the server ends its kernels meanwhile, in seconds.
GRACE_SECONDS = 20


@dataclass(frozen=True, kw_only=True)
class NotebookRequest(ProjectRequest):
    """What the user typed; an empty `code` means the folder of the node.

    Attributes:
        idle_minutes: without use, after which it ends by itself; 0: never.
    """

    node: str
    idle_minutes: int = IDLE_MINUTES


@dataclass(frozen=True, kw_only=True)
class Notebook(ProjectRun):
    """A notebook with nothing left open."""

    node: str
    folder: Path
    idle_minutes: int

    @property
    def label(self) -> str:
        """`notebook_<node>`."""
        return f"notebook_{re.sub(r'[^A-Za-z0-9_.-]', '-', self.node)}"

    def record(self, snapshot: Snapshot) -> dict[str, Any]:
        """What the manifest says of the project, and `notebook` with where its files go."""
        about = {
            "node": self.node,
            "folder": str(self.folder),
            "idle_minutes": self.idle_minutes,
        }
        return {**super().record(snapshot), "notebook": about}


def check_notebook(request: NotebookRequest, inventory: Inventory) -> None:
    """See that the node is one, before a folder is made for it.

    Raises:
        RequestError: with every problem found.
    """
    problems = []
    if request.node not in inventory.nodes:
        nodes = dict.fromkeys(inventory.nodes, "")
        problems.append(
            listed(f"node {request.node!r}", nodes)
            if nodes
            else f"node {request.node!r}: this inventory has no machines that train (trainers)"
        )
    if not 0 <= request.idle_minutes <= MOST_MINUTES:
        problems.append(
            f"IDLE={request.idle_minutes}: must be minutes from 1 to {MOST_MINUTES}, or 0 for never"
        )
    if problems:
        raise RequestError(*problems)


def resolve_notebook(request: NotebookRequest, inventory: Inventory, checkout: Project) -> Notebook:
    """Settle a request that `check_notebook` has passed; makes the node's folder if none is named.

    Raises:
        RequestError: with every problem found.
    """
    folder = Path(request.code).expanduser() if request.code else _own_folder(checkout, request)
    asked = replace(
        request,
        code=str(folder),
        entry="-m jupyterlab",
        script_args="",
        launch=NODE,
        nodes=1,
        procs_per_node=1,
        stall=0,
        grace=GRACE_SECONDS,
    )
    job = resolve_project(asked, inventory, checkout)
    minutes = request.idle_minutes
    code = replace(
        job.code,
        program=(*PROGRAM, "--idle-seconds", str(minutes * 60)),
        # What it says of a training does not hold here: one that is read is not silent.
        settings=Settings(silence=0),
        warnings=(),
    )
    values = {name: getattr(job, name) for name in job.__dataclass_fields__}
    values |= {"code": code, "node": request.node, "folder": folder.resolve()}
    return Notebook(**values, idle_minutes=minutes)


def _own_folder(checkout: Project, request: NotebookRequest) -> Path:
    """The folder of a node; one that has nothing in it gets a first notebook."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", request.node)
    folder = checkout.root / NOTEBOOKS / name
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.iterdir()):
        shutil.copyfile(checkout.root / FIRST, folder / FIRST.name)
    return folder
