"""What a project requires: settled and fetched once, added to the image once, delivered once."""

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from yard.code.fetch import SOURCES, fetch_wheels
from yard.code.git import difference
from yard.code.lock import lock, read_held, request_key
from yard.code.requirements import Requirements
from yard.code.snapshot import FOLDER, take_snapshot
from yard.core.context import Context
from yard.core.errors import Interrupted, RequestError, SomeNodesError, YardError
from yard.core.files import write_text
from yard.core.words import plural, size
from yard.operations.setup import HERE, run_operation
from yard.plays.ask import CERTIFICATES, ask_environment
from yard.plays.inventory import Inventory
from yard.request.own_code import ProjectRun
from yard.runs.folder import remove_run
from yard.runs.setup_record import note_on_nodes, read_record
from yard.screen.live_progress import make_progress

# Of a run directory: the versions that its project had.
LOCK = "packages.txt"
# What an image holds, and the program that tells pip of its platform, below the checkout.
_HELD = "docker/trainer/requirements/held-{target}.txt"
_PLATFORM = "docker/trainer/pip-platform"

# Asks for the variables of programs that fetch, see `_environment`.
Environment = Callable[[], Mapping[str, str]]


@dataclass(frozen=True)
class Packages:
    """What a project requires, on this machine.

    Attributes:
        path: the file that says so, below the project's folder.
        folder: has the lock, and the packages in `wheels/` and, of those that are built with the
            image, `sources/`; it is named after the lock.
        image_target: which image they are for.
    """

    path: str
    folder: Path
    count: int
    bytes: int
    image_target: str

    @property
    def lock(self) -> str:
        """`name==version` with the hashes of its files, of each package."""
        return (self.folder / LOCK).read_text(encoding="utf-8")

    def record(self) -> dict[str, Any]:
        """What the manifest says of it."""
        return {
            "path": self.path,
            "id": self.folder.name,
            "count": self.count,
            "bytes": self.bytes,
        }


def have_packages(
    context: Context,
    inventory: Inventory,
    requirements: Requirements,
    earlier: Path | None,
    fixed: str | None = None,
) -> Packages | None:
    """Settle what a project gets of what it requires, and have it on this machine.

    What was settled for the same text stays so.

    Args:
        earlier: the lock of the run that is repeated.
        fixed: the versions where nothing is to be settled: `name==version` with hashes.

    Returns:
        None where the image has all of it.

    Raises:
        RequestError: it does not fit the image.
        ClusterError: it cannot be fetched.
    """
    project = context.project
    store = project.root / ".trainyard" / "packages"
    store.mkdir(parents=True, exist_ok=True)
    target = inventory.image_target
    held = read_held(project.root / _HELD.format(target=target))
    # The lock says what it was made for: that of a repeated run may be for another image.
    head = "".join(f"# with {name} {version}\n" for name, version in held.items())
    # Ansible is asked once, and not where all is there already.
    environment = cache(partial(_environment, context, inventory))
    have = partial(_have, context, environment, store, target, requirements)
    if fixed is not None:
        return have(head + fixed)
    settled = store / f"{request_key(requirements, held)[:16]}.lock"
    if earlier is not None:
        text = earlier.read_text(encoding="utf-8")
        if text.startswith(head):
            return have(text)
        context.console.print(
            "The image has changed: the versions of the packages are chosen again."
        )
    if not settled.exists():
        write_text(settled, head + _settle(context, environment, requirements, held))
    text = settled.read_text(encoding="utf-8")
    return have(text)


def deliver_packages(context: Context, inventory: Inventory, packages: Packages) -> None:
    """Add the packages to the image and bring it to the nodes, unless that has been done.

    A node that does not answer, or cannot take it, is left to the look at the nodes, which may do
    without it.
    """
    record = read_record(context.project, inventory)
    if record is not None and packages.folder.name in record.packages:
        return
    context.console.print(f"Adding {_shown(packages)} to the image")
    variables = packages_variables(packages)
    limit: list[str] = []
    if inventory.has_two_images:
        target = packages.image_target
        variables["trainer_image_target"] = target
        limit = [
            HERE,
            *(node for node in inventory.trainers if inventory.image_of([node]) == target),
        ]
    try:
        run_operation(context, "packages_image", variables, limit=limit)
    except SomeNodesError as error:
        message = f"{error}\nGoing on with the nodes that have it"
        context.console.print(escape(message))
    else:
        note_on_nodes(context.project, inventory, "packages", packages.folder.name)


def keep_code(run: Path, job: ProjectRun, packages: Packages | None) -> dict[str, Any]:
    """Copy a project into its run, and which packages it has; returns what the manifest says.

    Raises:
        RequestError: a file changed meanwhile; the run is gone again.
    """
    try:
        snapshot = take_snapshot(job.code.files, run / FOLDER)
    except (OSError, RequestError):  # half of it would only fill a full disk
        remove_run(run)
        raise
    if job.code.git is not None and job.code.git["dirty"]:
        (run / f"{FOLDER}.diff").write_bytes(difference(job.code.files.folder))
    if packages is not None:
        (run / LOCK).write_text(packages.lock, encoding="utf-8")
    return {**job.record(snapshot), "packages": packages.record() if packages else None}


def packages_variables(packages: Packages | None) -> dict[str, str]:
    """The variable of roles that says which packages the image has."""
    return {} if packages is None else {"training_run_packages": str(packages.folder)}


def announce_packages(console: Console, packages: Packages) -> None:
    """Say what was settled."""
    console.print(f"{escape(packages.path)}: {_shown(packages)}")


def _shown(packages: Packages) -> str:
    return f"{plural(packages.count, 'package')}, {size(packages.bytes)}"


def _environment(context: Context, inventory: Inventory) -> Mapping[str, str]:
    """How programs on this machine reach packages, as the inventory has it."""
    environment = ask_environment(context.project, inventory.path)
    if CERTIFICATES in environment:
        # The file that it names is made from the machine's certificates and the site's.
        run_operation(context, "control_node", {}, inventory=inventory.path)
    return environment


def _settle(
    context: Context, environment: Environment, requirements: Requirements, held: Mapping[str, str]
) -> str:
    variables = environment()
    try:
        with make_progress(context.console) as progress:
            progress.phase("Resolving the packages")
            return lock(requirements, held, variables)
    except YardError as error:
        if context.interrupts.requested:  # Ctrl-C goes to uv too
            raise Interrupted("interrupted while packages were resolved") from error
        raise


def _have(
    context: Context,
    environment: Environment,
    store: Path,
    target: str,
    requirements: Requirements,
    text: str,
) -> Packages | None:
    if not any(line[:1].isalnum() for line in text.splitlines()):
        return None
    folder = store / hashlib.sha256(text.encode()).hexdigest()[:12]
    if not folder.exists():
        scratch = Path(tempfile.mkdtemp(prefix=".fetch.", dir=store))
        try:
            _fetch(context, environment, scratch, text, requirements.options())
            _rename(scratch, folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)  # it has its place now, or is of no use
    files = [*(folder / "wheels").glob("*.whl"), *(folder / SOURCES).glob("*")]
    total = sum(file.stat().st_size for file in files)
    return Packages(requirements.path, folder, len(files), total, target)


def _fetch(
    context: Context, environment: Environment, scratch: Path, text: str, options: str
) -> None:
    variables = environment()
    (scratch / LOCK).write_text(text, encoding="utf-8")
    with make_progress(context.console) as progress:
        progress.phase("Fetching the packages")
        fetch_wheels(
            context.project.root / _PLATFORM,
            scratch / LOCK,
            scratch / "wheels",
            progress.task,
            lambda: context.interrupts.requested,
            variables,
            options,
        )


def _rename(scratch: Path, folder: Path) -> None:
    """Give the fetched packages their place; another command may have been faster."""
    scratch.chmod(0o755)
    try:
        scratch.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
