"""`make notebook`: Jupyter Lab on a node, and the way to it."""

import http.client
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from rich.markup import escape

from yard import STARTED_AT
from yard.code.snapshot import FOLDER
from yard.commands.attach import attach
from yard.contact.ssh import settings_of
from yard.contact.tunnel import LOOPBACK, Tunnel, direct_way, open_tunnel
from yard.core.context import Context
from yard.core.errors import ClusterError, Exit, Interrupted, RequestError
from yard.core.words import plural, size
from yard.operations.ending import finish
from yard.operations.launch import RunFollower
from yard.operations.notebook import (
    START_SECONDS,
    Server,
    ask_server,
    notebook_packages,
    private_file,
    read_server,
)
from yard.operations.packages import deliver_packages, keep_code, packages_variables
from yard.operations.readiness import make_ready, mended
from yard.operations.state import ask_nodes
from yard.plays.connections import Connection, read_connections
from yard.plays.contract import NOTHING_STARTED
from yard.plays.inventory import Inventory, read_inventory
from yard.plays.remedy import addressed
from yard.request.notebook import Notebook, NotebookRequest, check_notebook, resolve_notebook
from yard.runs.cluster_state import SILENT, UNREACHABLE
from yard.runs.folder import create_run, followed
from yard.runs.manifest import new_manifest, read_manifest, write_manifest
from yard.runs.notebook_files import find_notebook, notebook_of

# How often it is looked whether the server still answers, in seconds, and after how many times
# without an answer it has ended.
LOOK_EVERY, MOST_SILENT = 5.0, 3
# What Jupyter Lab takes in the image, in bytes, and less than any run needs.
LEAST_ROOM = 200e6
# How often a Ctrl-C is looked for, in seconds.
TICK = 0.2


def notebook(
    context: Context,
    node: str,
    code: str,
    dataset: str | None,
    gpus_per_node: int | None,
    requirements: str | None,
    idle_minutes: int,
) -> Exit:
    """Start a notebook on a node, or come back to the one that is there, and keep the way open.

    Raises:
        ClusterError: the node cannot be reached, or the way to it broke.
        Interrupted: the user stopped before the notebook had started.
    """
    request = NotebookRequest(
        node=node,
        code=code,
        dataset=dataset,
        gpus_per_node=gpus_per_node,
        requirements=requirements,
        idle_minutes=idle_minutes,
    )
    inventory = read_inventory(context.project, context.inventory)
    check_notebook(request, inventory)
    run = find_notebook(context.project.runs, request.node, inventory.path)
    server = None
    if run is not None:
        server = _come_back(context, request, run)
    if run is None or server is None:
        run, server = _start(context, request, inventory)
    if server is None:
        return Exit(finish(context, run))
    return _keep_way(context, request.node, run, server)


def _come_back(context: Context, request: NotebookRequest, run: Path) -> Server | None:
    """The server of a notebook that goes on; None where it has ended and its files are home."""
    manifest = read_manifest(run)
    assert manifest is not None, "it was found by its manifest"
    server = ask_server(context, run, manifest, request.node)
    if server is None:
        context.console.print(f"{escape(run.name)} has ended; bringing its files home")
        attach(context, run)
        return None
    context.console.print(f"{escape(run.name)} goes on")
    about = notebook_of(manifest) or {}
    folder = Path(request.code).expanduser().resolve() if request.code else None
    if folder is not None and str(folder) != about.get("folder"):
        there = escape(str(about.get("folder")))
        context.console.print(
            f"[yellow]It has the files of {there}[/], and not those of CODE=; "
            f"make stop RUN={run.name} ends it"
        )
    return server


def _start(
    context: Context, request: NotebookRequest, inventory: Inventory
) -> tuple[Path, Server | None]:
    """Start a notebook; without a server it has not started, and `finish` says why."""
    project, interrupts = context.project, context.interrupts
    job = resolve_notebook(request, inventory, project)
    _announce(context, job)
    ours = bool(inventory.container_hosts)
    if not ours:
        # Set-up of such machines is not ours, and what keeps a notebook off the node is known
        # before packages are fetched and an image is built.
        make_ready(context, inventory, job)
        _see_node(context, request.node)
    image = inventory.image_of([request.node])
    packages = notebook_packages(context, replace(inventory, image_target=image), job)
    if ours:
        inventory = make_ready(context, inventory, job)
    if request.node not in inventory.trainers:
        number = inventory.nodes.index(request.node) + 1
        remedy = addressed(f"make local-up NODES={number}", project, inventory.path)
        raise RequestError(f"{request.node}: is not there yet; {remedy}")
    deliver_packages(context, inventory, packages)
    if interrupts.requested:
        raise Interrupted("interrupted before anything was started")
    run = create_run(project.runs, job)
    context.console.print(f"Run {escape(run.name)}")
    code = keep_code(run, job, packages)
    manifest = new_manifest(project, inventory, request, job, run.name, STARTED_AT, code)
    write_manifest(run, manifest)
    with followed(run), private_file() as file:
        variables = {
            **job.extravars(),
            **packages_variables(packages),
            "training_run_code": str(run / FOLDER),
            "training_run_restarts": 0,
            "training_run_notebook_file": str(file),
            "training_run_notebook_seconds": START_SECONDS,
        }
        follower = RunFollower(context, run, manifest, "notebook", variables, limit=[request.node])
        outcome = follower.run()
        too_late = follower.phase not in NOTHING_STARTED or interrupts.requested
        if not too_late and not outcome.ok and mended(context, inventory, job, packages, outcome):
            outcome = follower.run()
        if not outcome.ok or interrupts.requested:
            return run, None
        # The playbook has ended and the run has not.
        write_manifest(run, follower.manifest.with_launch(playbook="running"))
        return run, read_server(file)


def _see_node(context: Context, node: str) -> None:
    """See that the node answers and that runs can start there."""
    for found in ask_nodes(context, [node]).nodes:
        if found.reason:
            doctor = addressed(f"make doctor ON={node}", context.project, context.inventory)
            asked = f"\n{doctor} tells why" if found.state in (UNREACHABLE, SILENT) else ""
            raise ClusterError(f"{node}: {found.state}: {found.reason}{asked}")
        left = None if found.load is None else found.load.disk_free_bytes
        if left is not None and left < LEAST_ROOM:
            raise ClusterError(f"{node}: {size(left)} left on its disk: make clean-up, or df there")


def _announce(context: Context, job: Notebook) -> None:
    what = plural(job.gpus_per_node, "free GPU") if job.gpus_per_node else "the whole machine"
    limit = plural(job.idle_minutes, "minute")
    end = f"ends by itself after {limit} without use" if job.idle_minutes else "ends by make stop"
    files = plural(len(job.code.files.travelling), "file")
    folder = context.project.shown(job.folder)
    context.console.print(
        f"[bold]Jupyter Lab[/] on {escape(job.node)}: takes {what}, {end}\n"
        f"{files} of {escape(folder)}; what is new or changed comes back there"
    )


def _keep_way(context: Context, node: str, run: Path, server: Server) -> Exit:
    console, interrupts = context.console, context.interrupts
    with _way(context, node, server) as way:
        if interrupts.requested:
            _say_goes_on(context, node, run)
            return Exit.DONE
        if not way.is_open:
            raise ClusterError(_broken(context, node, run, way))
        url = f"http://{LOOPBACK}:{way.port}/lab?token={server.token}"
        console.print(url, soft_wrap=True, markup=False)
        console.print("Ctrl-C closes the connection; the notebook keeps running.")
        silent = 0
        while silent < MOST_SILENT:
            looked_at = time.monotonic()
            while time.monotonic() - looked_at < LOOK_EVERY:
                if interrupts.requested:
                    _say_goes_on(context, node, run)
                    return Exit.DONE
                time.sleep(TICK)
            if not way.is_open:
                raise ClusterError(_broken(context, node, run, way))
            silent = 0 if _answers(way.port) else silent + 1
    console.print(f"{escape(run.name)} does not answer any more")
    manifest = read_manifest(run)
    assert manifest is not None, "it was written when the run began"
    if ask_server(context, run, manifest, node) is not None:
        ways = _ways(context, node, run)
        raise ClusterError(f"{node}: the server runs but does not answer\n{ways}")
    return attach(context, run)


def _way(context: Context, node: str, server: Server) -> AbstractContextManager[Tunnel]:
    connection = _connection(context, node)
    if connection.plugin == "local":
        return direct_way(server.port)
    settings = settings_of(connection)
    if isinstance(settings, str):
        raise ClusterError(f"{node}: ssh rejects the settings of the inventory\n{settings}")
    return open_tunnel(connection, settings, server.port, lambda: context.interrupts.requested)


def _connection(context: Context, node: str) -> Connection:
    hosts = read_connections(context.project, context.inventory).hosts
    connection = next((host for host in hosts if host.host == node), None)
    if connection is None or connection.problem is not None:
        raise RequestError(f"{node}: {connection.problem if connection else 'not there'}")
    if connection.plugin not in ("ssh", "local"):
        raise RequestError(f"{node}: is reached by {connection.plugin}; a notebook needs ssh")
    return connection


def _answers(port: int) -> bool:
    """Whether the server answers; the question does not count as use."""
    server = http.client.HTTPConnection(LOOPBACK, port, timeout=10)
    try:
        server.request("GET", "/api?no_track_activity=1")
        return server.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        server.close()


def _say_goes_on(context: Context, node: str, run: Path) -> None:
    context.console.print(
        f"The notebook keeps running:\n{_ways(context, node, run)}", soft_wrap=True
    )


def _broken(context: Context, node: str, run: Path, way: Tunnel) -> str:
    said = "".join(f"\n    {line}" for line in way.words.splitlines()[-5:])
    ways = _ways(context, node, run)
    return f"the connection to {node} is closed{said}\nThe notebook keeps running there:\n{ways}"


def _ways(context: Context, node: str, run: Path) -> str:
    back = addressed(f"make notebook NODE={node}", context.project, context.inventory)
    return (
        f"    {back}   comes back to it\n"
        f"    make stop RUN={run.name}   ends it and brings its files home"
    )
