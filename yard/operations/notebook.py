"""Starts a notebook on its node, asks where its server listens, and brings its files back."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.markup import escape

from yard.code.jupyter import notebook_requirements
from yard.core.context import Context
from yard.core.errors import ClusterError, Interrupted, UnreachableError
from yard.core.files import read_object
from yard.core.words import plural
from yard.operations.packages import Packages, announce_packages, have_packages
from yard.operations.runtime import as_it_ran
from yard.plays.contract import SERVE_NOTEBOOK, stop_variables
from yard.plays.events import Event
from yard.plays.inventory import Inventory
from yard.plays.play import play
from yard.request.notebook import Notebook
from yard.runs.manifest import Manifest, read_manifest
from yard.runs.notebook_files import notebook_of, return_files
from yard.screen.live_progress import make_progress

# How long a server that runs may take to answer, and one that starts, in seconds.
ANSWER_SECONDS, START_SECONDS = 15, 90
TOKEN = re.compile(r"[0-9a-f]{32,128}")


@dataclass(frozen=True)
class Server:
    """Where the server of a notebook listens on its node, and what it wants to be told."""

    port: int
    token: str = field(repr=False)


def notebook_packages(context: Context, inventory: Inventory, job: Notebook) -> Packages:
    """Have Jupyter Lab and what the project requires on this machine."""
    root = context.project.root
    needed, fixed = notebook_requirements(root, job.code.requirements)
    packages = have_packages(context, inventory, needed, None, fixed)
    assert packages is not None, "no image has Jupyter Lab"
    announce_packages(context.console, packages)
    return packages


@contextmanager
def private_file() -> Iterator[Path]:
    """A path for what a node tells of its server; it is for this user alone, and goes."""
    with tempfile.TemporaryDirectory(prefix="trainyard-notebook.") as folder:
        yield Path(folder) / "notebook.json"


def read_server(file: Path) -> Server:
    """Read what a node tells of its server.

    Raises:
        ClusterError: it is nothing that a node tells.
    """
    told = read_object(file)
    port, token = told.get("port"), told.get("token")
    if not isinstance(port, int) or not 1024 <= port < 65536:
        raise ClusterError("the node does not say on which port the notebook listens")
    if not isinstance(token, str) or not TOKEN.fullmatch(token):
        raise ClusterError("the node does not give the token of the notebook")
    return Server(port, token)


def ask_server(context: Context, run: Path, manifest: Manifest, node: str) -> Server | None:
    """Ask a node where the server of a notebook listens; None where the notebook has ended.

    Raises:
        UnreachableError: the node cannot be reached.
        ClusterError: it cannot tell.
    """
    as_it_ran(context, manifest)
    running: list[bool] = []

    def take(event: Event) -> None:
        if event.module == SERVE_NOTEBOOK and event.kind == "runner_on_ok":
            running.append(bool(event.result.get("running")))

    with private_file() as file, make_progress(context.console) as progress:
        progress.phase(f"Asking {node} for its notebook")
        outcome = play(
            context,
            "notebook_way",
            {
                **stop_variables(run.name, str(run), manifest.home),
                "training_run_notebook_file": str(file),
                "training_run_notebook_seconds": ANSWER_SECONDS,
            },
            take,
            log=run / "ansible.log",
            inventory=Path(manifest.inventory_path),
            limit=[node],
        )
        if outcome.cancelled:
            raise Interrupted("interrupted; the notebook goes on")
        if outcome.failures or not running:
            progress.fail()
            failure = next(iter(outcome.failures), None)
            said = failure.message if failure else "no answer"
            kind = UnreachableError if failure and failure.unreachable else ClusterError
            raise kind(f"{node}: {said}\n{run.name} may go on there: make stop RUN={run.name}")
        return read_server(file) if running[0] else None


def bring_back(context: Context, run: Path) -> None:
    """Put the files of a notebook that has ended into their folder, and say so."""
    manifest = read_manifest(run)
    returned = None if manifest is None else return_files(run, manifest)
    if manifest is None or returned is None:
        if manifest is not None and notebook_of(manifest) is not None:
            context.console.print("The notebook left no new or changed files.")
        return
    console, shown = context.console, escape(context.project.shown(returned.folder))
    written = plural(len(returned.written), "new or changed file")
    console.print(f"{written} of the notebook in {shown}")
    if returned.beside:
        console.print("Changed here meanwhile too, so the notebook's versions are beside yours:")
    for name in returned.beside:
        console.print(f"    {escape(name)}", soft_wrap=True)
    if returned.failed:
        left = escape(context.project.shown(run / "workdir"))
        console.print(f"[red]Could not be written there[/], and are in {left}:")
    for failure in returned.failed:
        console.print(f"    {escape(failure)}")
