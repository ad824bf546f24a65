"""The verb `end`: ends a run on a node, keeps what it leaves, and removes its containers."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from typing import Any

from ..engine.containers import EngineError, containers, inspect, is_running, remove, send
from ..forms import LocalPath
from ..machine.account import ranks_account
from ..machine.gpu_faults import gpu_faults, seconds_since_start
from ..runs.collect import Collected, Limits, checkpoint_files, collect_attempts, give
from ..runs.container import GRACE
from ..runs.directory import RunDirectory
from ..runs.disk_space import FULL_BYTES, free_bytes, lacks_inodes
from ..runs.lock import guarded, own, put, read, release, same
from ..runs.records import FACTS, json_record, keep_records, remove_keys, write_record
from ..runs.share import copy_to_share
from ..runs.untrusted import is_there

# Asked first, then told; the container's first process hands both on (see docker/trainer/bin).
STEPS = ("SIGINT", "SIGTERM")


def grace(container: str) -> int:
    """Return how many seconds the ranks of a project have to end, as its launch said."""
    details = inspect(container)
    entries = details["Config"]["Env"] if details else []
    values = [entry.partition("=")[2] for entry in entries if entry.startswith(f"{GRACE}=")]
    return int(values[0]) if values else 0


def end_container(container: str, patience: int) -> None:
    """Interrupt the run in a container, then terminate it, then kill it.

    A container ends by itself when its ranks have. The interrupt of the launcher's ends the ranks
    of all nodes; the others have only to wait for that.
    """
    for step in STEPS:
        send(container, step)
        deadline = time.monotonic() + patience + grace(container)
        while is_running(container):
            if time.monotonic() > deadline:
                break
            time.sleep(0.2)
    if is_running(container):
        send(container, "SIGKILL")


def finding(code: str, **values: Any) -> dict[str, Any]:
    """Return something that is known of a failure: a code, and scalars by name."""
    return {"code": code, "values": values}


def machine_findings(root: str) -> list[dict[str, Any]]:
    """Return what the machine knows of a failure.

    Its count of processes that were killed for want of memory is of everybody's: a run's own
    container tells of its own.
    """
    if lacks_inodes(root):
        return [finding("node_inodes_used_up", path=root)]
    free = free_bytes(root)
    return [finding("node_disk_full", path=root, bytes=free)] if free < FULL_BYTES else []


def faults_of_gpus(directory: RunDirectory, host: str) -> list[dict[str, Any]]:
    """Return what went wrong with the run's GPUs since it began, when they were noted."""
    path = os.path.join(directory.records(host), FACTS)
    try:
        with open(path, encoding="utf-8") as file:
            before = json.load(file)["gpu_devices"]
        since = seconds_since_start(path)
    except (OSError, ValueError, KeyError):  # it never began, or its disk was full
        return []
    return [finding(code, **values) for code, values in gpu_faults(before, since)]


def was_killed(container: str, run: str) -> bool:
    """Tell whether a container was killed from outside: a launch that ends notes its status."""
    details = inspect(container)
    if details is None or details["State"]["Running"]:
        return False
    noted = is_there(run, "exit_status")
    return not noted and details["State"]["ExitCode"] == 128 + signal.SIGKILL


def memory_findings(container: str) -> list[dict[str, Any]]:
    """Return whether the kernel killed a process of a container for want of memory.

    Where the container has no limit, it was the machine that had no more.
    """
    details = inspect(container)
    if details is None or not details["State"]["OOMKilled"]:
        return []
    limited = details["HostConfig"]["Memory"]
    return [finding("container_out_of_memory" if limited else "node_out_of_memory")]


def left_behind(collected: Collected) -> list[dict[str, Any]]:
    """Return what there is to say of files that do not go home."""
    findings = []
    if collected.refused.count:
        values = {"files": collected.refused.count, "names": str(collected.refused)}
        findings.append(finding("files_refused", **values))
    if collected.beyond.count:
        values = {"files": collected.beyond.count, "names": str(collected.beyond)}
        findings.append(finding("files_beyond_limits", **values))
    return findings


# Of a run of the same name that another checkout has: it is not touched.
NOTHING: dict[str, Any] = {
    "removed": [],
    "left": False,
    "launched": False,
    "checkpoints": [],
    "copies": False,
    "kept": "",
    "trouble": "",
    "changed": False,
}


def end(
    run_id: str,
    home: str,
    root: LocalPath,
    host: str,
    carrier: int = 0,
    gigabytes: float = 100.0,
    files: int = 10000,
    share: str = "",
    uid: int = 0,
    gid: int = 0,
    patience: int = 10,
) -> dict[str, Any]:
    """End a run on this machine, keep what it leaves, and remove its container, keys and lock.

    What still runs is interrupted, then terminated, then killed. Other runs and their processes are
    never touched, because everything is found by the run's label. Log and state of the container
    and what the machine can tell of a failure (findings.json, codes with their values) are written
    beside what the ranks left: plain files of known names, within the limits.

    Args:
        home: where its logs go on the control node; two runs of one id differ in it.
        host: name of this machine; its records go to `nodes/<host>`.
        carrier: id of the user that brings the files home.
        gigabytes: how much of them may go home, in 10^9 bytes.
        share: folder of a mounted share, to which checkpoints and outputs are copied too, below a
            folder of the run's name. Empty for none.
        uid, gid: who writes there.
        patience: seconds between the interrupt and the termination, and from there to the kill.

    Returns:
        `removed`: names of containers; `left`: whether there are files to bring home; `launched`:
        whether the ranks were started from here; `checkpoints`: their names; `copies`: whether
        there are copies of another machine's; `kept`: what stays here and why, else empty; and
        `trouble`: why the run could not be ended, else empty.
    """
    uid, gid = ranks_account(uid, gid)
    directory = RunDirectory(root, run_id)
    mine = {"run": run_id, "home": home}
    with guarded(root):
        if any(lock["run"] == run_id and not same(lock, mine) for lock in read(root)):
            return dict(NOTHING)
        lock = own(root, mine)
        findings = machine_findings(root)
        # A full disk: this is the room for what is written now.
        with suppress(FileNotFoundError):
            os.remove(directory.reserve)
        if lock is not None:
            # Where even that does not fit, nothing can be started either.
            with suppress(OSError):
                put(root, {**lock, "ending": True})

    # While the run's container holds them: the driver may forget when nobody does.
    findings += faults_of_gpus(directory, host)
    removed: list[str] = []
    trouble = ""
    try:
        for listed in containers(f"trainyard.run={run_id}"):
            container, name = listed["Id"], listed["Names"][0].lstrip("/")
            if was_killed(container, directory.path):
                findings.append(finding("container_killed"))
            end_container(container, patience)
            findings += memory_findings(container)
            keep_records(container, directory, host)
            remove(container)
            removed.append(name)
    except EngineError as error:
        trouble = str(error)
        findings.append(finding("engine_gone", message=trouble))
    except OSError as error:
        trouble = f"the records of the container: {error}"
    kept = ""
    keys = remove_keys(directory)
    if directory.exists():
        limits = Limits(int(gigabytes * 10**9), files)
        try:
            # The command that follows the run ends it too, beside make stop.
            with guarded(directory.path):
                collected = collect_attempts(directory, host, limits)
            findings += left_behind(collected)
            kept = str(collected.beyond)
        except OSError as error:
            if directory.exists():
                kept = f"what the ranks left could not be collected: {error}"
                trouble = trouble or kept
    if not trouble:
        # Other runs may have the node while files go to a share, which can take long.
        release(root, mine)
    if directory.exists():
        if share:
            said = copy_to_share(directory, directory.collect, share, uid, gid)
            if said:
                findings.append(finding("share_failed", path=share, message=said))
        with suppress(OSError):
            write_record(directory, host, "findings.json", json_record(findings))
        for path in (directory.collect, directory.copies):
            give(path, carrier)
    return {
        "removed": removed,
        "left": directory.exists(),
        "launched": directory.launches(),
        "checkpoints": checkpoint_files(directory, host),
        "copies": os.path.isdir(directory.copies),
        "kept": kept,
        "trouble": trouble,
        "changed": bool(removed or keys),
    }
