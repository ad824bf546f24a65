"""The verb `start`: starts the container of a run on a node, with the small files it reads."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from ..check.folder import FolderError, find_mount
from ..engine.containers import EngineError, is_running, logs
from ..engine.containers import run as start_container
from ..engine.gpus import gpu_host_configuration
from ..failure import RefusedError, VerbError
from ..machine.account import OWN_UID, ranks_account
from ..machine.hardware import memory_bytes
from ..runs.code import copy_project
from ..runs.collect import PROJECTS, give
from ..runs.container import Container, Start, memory_limit, rdma_devices
from ..runs.directory import ARGUMENTS, ENVIRONMENT, HOSTFILE, RunDirectory
from ..runs.disk_space import error_of, refusing, room_for, size_of
from ..runs.lock import container_of, guarded, own
from ..runs.records import FACTS, json_record, remove_tree, write_record
from ..runs.ssh import login_files
from ..runs.untrusted import open_directory, open_file

# Of what the container is given, what goes home.
RECORDS = ("config.json", HOSTFILE, ARGUMENTS, "program.json")
METRICS = "metrics.jsonl"
# In `resume`: what this very node had, beside what the first node had.
OWN = "own"
RENDER = re.compile(r"/dev/dri/renderD\d{1,4}", re.ASCII)


def lines_of(secrets: Mapping[str, Any]) -> str:
    """Return an environment as lines.

    Raises:
        VerbError: a value has more than one line; the error names it without its value.
    """
    lines = []
    for name, value in secrets.items():
        if "\n" in str(value):
            raise VerbError("secret_of_lines", name=name)
        if value not in (None, ""):
            lines.append(f"{name}={value}\n")
    return "".join(lines)


def listens(address: str, port: int) -> bool:
    """Tell whether something takes connections there."""
    try:
        with socket.create_connection((address, port), timeout=1.0):
            return True
    except OSError:
        return False


def may_start(root: str, run: dict[str, Any]) -> bool:
    """Tell whether a run holds the node and nobody ends it; only under `guarded`."""
    lock = own(root, run)
    return lock is not None and not lock.get("ending", False)


def container_for(run: Start, directory: RunDirectory) -> Container:
    """Return the container that is asked for.

    Raises:
        EngineError: nothing gives GPUs to containers here, or a GPU is none.
        FolderError: the folder that the ranks are to read is not to be mounted.
    """
    container = run.container
    part, folder = container.part, container.folder
    # They come from what this machine said of itself, by way of the control node.
    strange = [path for path in container.render_devices if not RENDER.fullmatch(path)]
    if strange:
        raise EngineError(f"{strange[0]} is no GPU")
    limit = memory_limit(container.memory_gigabytes, container.memory_share, memory_bytes())
    return Container(
        run,
        directory,
        folder=find_mount(folder, run.uid, run.gid, run.root) if folder else "",
        gpus=gpu_host_configuration(container.gpus),
        rdma=rdma_devices() if (run.launch.profile or {}).get("rdma") else (),
        cores=len(os.sched_getaffinity(0)) * part if part < 1 else 0,
        memory_bytes=int(limit * part),
    )


def files_for(run: Start) -> dict[str, Any]:
    """Return what the container of this machine is given: path below `config` to content.

    Raises:
        VerbError: see `lines_of`.
    """
    container, launch = run.container, run.launch
    files: dict[str, Any] = dict(run.files)
    files |= login_files(launch._asdict(), container.user, run.address, run.port)
    if container.hostname == launch.nodes[0]:
        files[ARGUMENTS] = "\n".join(launch.arguments()) + "\n"
    secrets = lines_of(run.secrets)
    if secrets:
        files[ENVIRONMENT] = secrets
    return files


def write_files(directory: RunDirectory, files: dict[str, Any], uid: int, gid: int) -> None:
    """Write what the container is given; the ranks can read it, and nobody else on the node.

    What makes the run goes home as well: its configuration and the arguments of its launch.
    """
    for name, content in files.items():
        # Ansible may have read a JSON document out of a string on its way here.
        text = content if isinstance(content, str) else json.dumps(content, indent=2) + "\n"
        path = os.path.join(directory.config, name)
        with open(path, "w", encoding="utf-8") as file:
            # Of secrets nobody is to see a byte before they have their owner and mode.
            os.fchmod(file.fileno(), 0o400 if name == ENVIRONMENT else 0o440)
            os.fchown(file.fileno(), uid if name == ENVIRONMENT else OWN_UID, gid)
            file.write(text)
        if name in RECORDS:
            with open(os.path.join(directory.collect, name), "w", encoding="utf-8") as file:
                file.write(text)


def hand_over(directory: RunDirectory, uid: int, gid: int) -> None:
    """Give the ranks the checkpoints that they go on from, and what belongs to them.

    They were sent by whoever carries files to this node, and are plain files and their links. The
    metrics go on. A project finds its checkpoints and its other files where it had them: those of
    the first node, and over them what this node had itself, where that is not older. They are
    copied as the user that owns the copy.

    Raises:
        NoRoomError: the disk is full. Nothing of the copies is left: half a checkpoint would go
            home in the place of the whole one.
    """
    if not os.path.isdir(directory.resume):
        return
    copies = [*PROJECTS, "checkpoints", METRICS]

    def undo() -> None:
        for name in copies:
            remove_tree(os.path.join(directory.work, name))

    with room_for(
        "the files that the run goes on from",
        directory.path,
        lambda: size_of(directory.resume),
        undo,
    ):
        _copy_carried(directory, uid, gid)


def _copy_carried(directory: RunDirectory, uid: int, gid: int) -> None:
    give(directory.resume, uid, gid)
    # Without root all belongs to one account, which this is.
    as_owner: dict[str, Any] = (
        {"user": uid, "group": gid, "extra_groups": []} if OWN_UID == 0 else {}
    )
    carried_on = PROJECTS | {"checkpoints": "checkpoints"}
    # What this node had itself comes over what the first node had, where it is not older.
    for above, (place, name) in (
        itertools.product(
            (directory.resume, os.path.join(directory.resume, OWN)), carried_on.items()
        )
        if os.path.isdir(directory.project)
        else ()
    ):
        carried = os.path.join(above, name)
        if os.path.isdir(carried):
            command = ["cp", "--archive", "--no-target-directory"]
            command += ["--update"] if above != directory.resume else []
            copied = subprocess.run(
                [*command, carried, f"{directory.work}/{place}"],
                check=False,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "LC_ALL": "C"},
                **as_owner,
            )
            if copied.returncode:
                raise error_of(copied.stderr)
    with ExitStack() as stack:
        sent, work = open_directory(directory.resume), open_directory(directory.work)
        stack.callback(os.close, sent)
        stack.callback(os.close, work)
        try:
            source = stack.enter_context(os.fdopen(open_file(sent, METRICS), "rb"))
        except FileNotFoundError:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = os.open(METRICS, flags, 0o644, dir_fd=work)
        target = stack.enter_context(os.fdopen(descriptor, "wb"))
        os.fchown(descriptor, uid, gid)
        shutil.copyfileobj(source, target)


def prepare(run: Start, directory: RunDirectory, files: dict[str, Any]) -> None:
    """Write all that the container finds.

    Raises:
        NoRoomError: the disk is full.
        OSError: it cannot be written for another reason.
    """
    host = run.container.hostname
    facts = json_record(run.facts)

    def undo() -> None:
        # What goes home is whole, or home has what an attempt before had.
        remove_tree(directory.records(host))
        for name in RECORDS:
            remove_tree(os.path.join(directory.collect, name))

    size = len(facts) + len(json.dumps(files))
    with room_for("the files of the run", directory.path, lambda: size, undo):
        write_files(directory, files, run.uid, run.gid)
        write_record(directory, host, FACTS, facts)
    copy_project(directory, run.uid, run.gid)
    hand_over(directory, run.uid, run.gid)


def start(run: Start) -> dict[str, Any]:
    """Start the container of a run that has this machine; in that of the launcher, the ranks.

    Returns:
        `name` of the container, whose sshd listens.

    Raises:
        RefusedError: the disk is full, or the folder of data is none that ranks may read.
        VerbError: the container cannot be started, or was ended meanwhile.
    """
    uid, gid = ranks_account(run.uid, run.gid)
    run = run._replace(uid=uid, gid=gid)
    directory = RunDirectory(run.root, run.run_id)
    name, host = container_of(run.run_id), run.container.hostname
    files = files_for(run)
    with refusing(host):
        try:
            prepare(run, directory, files)
        except OSError as error:
            raise VerbError("files_not_written", message=str(error)) from error
    try:
        # A launch that is interrupted may leave this program running: what it started after the
        # end of the run would be nobody's.
        with guarded(run.root):
            if not may_start(run.root, {"run": run.run_id, "home": run.home}):
                raise VerbError("ended_before_start")
            start_container(name, container_for(run, directory).configuration())
        deadline = time.monotonic() + run.wait
        while not listens(run.address, run.port):
            if not is_running(name) or time.monotonic() > deadline:
                said = (logs(name) or b"").decode(errors="replace")
                where = {"address": run.address, "port": run.port}
                raise VerbError("sshd_silent", **where, said=said[-2000:])
            time.sleep(0.1)
    except EngineError as error:
        raise VerbError("failed", message=str(error)) from error
    except FolderError as error:  # it was there when the machine was looked at
        found = [error.problem.asdict()]
        raise RefusedError(f"The run was not started.\n{host}: ", found) from error
    return {"name": name}
