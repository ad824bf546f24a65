#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: ends a run on a node, keeps what it leaves, and removes its containers."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_run_end
short_description: Ends a run on a node
description:
  - Interrupts what still runs of this run, then terminates it, then kills it. Writes the
    container's log and state and what the node can tell of a failure (C(findings.json), a list of
    codes with their values) into the run's directory;
    removes the container, the run's private keys and its lock. Other runs and their processes are
    never touched, because everything is found by the run's label.
  - Puts what the ranks left, plain files of known names within the limits, beside the records, for
    O(carrier) to bring home. What is no such file is named in the findings.
author: Trainyard
options:
  run_id:
    description: The run.
    type: str
    required: true
  home:
    description: Where its logs go on the control node; two runs of one id differ in it.
    type: str
    required: true
  root:
    description: Directory of all runs.
    type: path
    required: true
  host:
    description: Name of this node; its records go to C(nodes/<host>) of the run's directory.
    type: str
    required: true
  carrier:
    description: Id of the user that brings the files home.
    type: int
    default: 0
  gigabytes:
    description: How much of it may go home from this node, in 10^9 bytes.
    type: float
    default: 100
  files:
    description: How many files may.
    type: int
    default: 10000
  share:
    description: >-
      Folder of a mounted share, to which the run's checkpoints and outputs are copied too, below a
      folder of the run's name; what keeps that from being done is in the findings. Empty for none.
    type: str
    default: ""
  uid:
    description: User id that writes there.
    type: int
    default: 0
  gid:
    description: Its group id.
    type: int
    default: 0
  patience:
    description: Seconds between the interrupt and the termination, and from there to the kill.
    type: int
    default: 10
"""

EXAMPLES = r"""
- name: End the run on this node
  training_run_end:
    run_id: 20261120T120000Z_vit_cifar10_b64_e5_n2_p1
    home: /home/ada/trainyard/runs/20261120T120000Z_vit_cifar10_b64_e5_n2_p1
    root: /srv/trainyard/runs
    host: node1
"""

RETURN = r"""
removed:
  description: Names of the containers that were removed.
  returned: always
  type: list
  elements: str
left:
  description: Whether a directory of this run is there to be brought home.
  returned: always
  type: bool
launched:
  description: Whether this is the node that started the ranks, whose checkpoints are the newest.
  returned: always
  type: bool
checkpoints:
  description: The checkpoints of this node that go home, by their paths there.
  returned: always
  type: list
  elements: str
copies:
  description: Whether this node has copies of the checkpoints of that one, in C(copies).
  returned: always
  type: bool
kept:
  description: >-
    Why the directory has to stay on the node when the files are home, or empty: some exceed a
    limit, or could not be collected.
  returned: always
  type: str
trouble:
  description: What could not be done, or empty. The files of the run can be collected all the same.
  returned: always
  type: str
"""

import json
import os
import signal
import time
from contextlib import suppress
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node.engine.containers import (
    EngineError,
    containers,
    inspect,
    is_running,
    remove,
    send,
)
from ansible.module_utils.training_node.runs.lock import (
    guarded,
    is_part,
    own,
    put,
    read,
    release,
    same,
)
from ansible.module_utils.training_node.runs.untrusted import is_there
from ansible.module_utils.training_node_account import with_account
from ansible.module_utils.training_node_directory import RunDirectory
from ansible.module_utils.training_node_facts import FULL_BYTES, free_bytes, oom_kills
from ansible.module_utils.training_node_gpu_faults import gpu_faults, seconds_since_start
from ansible.module_utils.training_run_collect import (
    Collected,
    Limits,
    checkpoint_files,
    collect,
    give,
)
from ansible.module_utils.training_run_container import GRACE
from ansible.module_utils.training_run_records import (
    FACTS,
    json_record,
    keep_records,
    remove_keys,
    write_record,
)
from ansible.module_utils.training_run_share import copy_to_share

# Asked first, then told; the container's first process hands both on (see docker/trainer/bin).
STEPS = ("SIGINT", "SIGTERM")


def grace(container: str) -> int:
    """Return how many seconds the ranks of a project have to end, as its launch said."""
    details = inspect(container)
    entries = details["Config"]["Env"] if details else []
    values = [entry.partition("=")[2] for entry in entries if entry.startswith(f"{GRACE}=")]
    return int(values[0]) if values else 0


def end(container: str, patience: int) -> None:
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


def machine_findings(root: str, lock: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return what the machine knows of a failure."""
    findings = []
    free = free_bytes(root)
    if free < FULL_BYTES:
        findings.append(finding("node_disk_full", path=root, bytes=free))
    # Of a node that runs share, it may have been another one's process that was killed. A run's own
    # container tells of its own.
    alone = lock is not None and not is_part(lock)
    killed = oom_kills() - int(lock["oom_kills"]) if lock and alone else 0
    if killed > 0:
        findings.append(finding("node_out_of_memory", processes=killed))
    return findings


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
    """Tell whether a container was killed from outside: a launch that ends notes its status.

    Args:
        run: directory of the run.
    """
    details = inspect(container)
    if details is None or details["State"]["Running"]:
        return False
    noted = is_there(run, "exit_status")
    return not noted and details["State"]["ExitCode"] == 128 + signal.SIGKILL


def ran_out_of_memory(container: str) -> bool:
    """Tell whether the kernel killed a process of a container at its own limit of memory."""
    details = inspect(container)
    return details is not None and bool(details["State"]["OOMKilled"])


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


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "run_id": {"type": "str", "required": True},
            "home": {"type": "str", "required": True},
            "root": {"type": "path", "required": True},
            "host": {"type": "str", "required": True},
            "carrier": {"type": "int", "default": 0},
            "gigabytes": {"type": "float", "default": 100.0},
            "files": {"type": "int", "default": 10000},
            "share": {"type": "str", "default": ""},
            "uid": {"type": "int", "default": 0},
            "gid": {"type": "int", "default": 0},
            "patience": {"type": "int", "default": 10},
        },
    )
    options = with_account(module.params)
    root, host = options["root"], options["host"]
    directory = RunDirectory(root, options["run_id"])
    mine = {"run": options["run_id"], "home": options["home"]}
    with guarded(root):
        if any(lock["run"] == options["run_id"] and not same(lock, mine) for lock in read(root)):
            module.exit_json(
                changed=False,
                removed=[],
                left=False,
                launched=False,
                checkpoints=[],
                copies=False,
                kept="",
                trouble="",
            )
        lock = own(root, mine)
        findings = machine_findings(root, lock)
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
        for listed in containers(f"trainyard.run={options['run_id']}"):
            container, name = listed["Id"], listed["Names"][0].lstrip("/")
            if was_killed(container, directory.path):
                findings.append(finding("container_killed"))
            end(container, options["patience"])
            if ran_out_of_memory(container):
                findings.append(finding("container_out_of_memory"))
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
        limits = Limits(int(options["gigabytes"] * 10**9), options["files"])
        try:
            collected = collect(directory, host, limits)
            findings += left_behind(collected)
            kept = str(collected.beyond)
        except OSError as error:
            kept = f"what the ranks left could not be collected: {error}"
            trouble = trouble or kept
    if not trouble:
        # Other runs may have the node while files go to a share, which can take long.
        release(root, mine)
    if directory.exists():
        if options["share"]:
            said = copy_to_share(directory, options["share"], options["uid"], options["gid"])
            if said:
                findings.append(finding("share_failed", path=options["share"], message=said))
        with suppress(OSError):
            write_record(directory, host, "findings.json", json_record(findings))
        for path in (directory.collect, directory.copies):
            give(path, options["carrier"])
    module.exit_json(
        changed=bool(removed or keys),
        removed=removed,
        left=directory.exists(),
        launched=directory.launches(),
        checkpoints=checkpoint_files(directory, host),
        copies=os.path.isdir(directory.copies),
        kept=kept,
        trouble=trouble,
    )


if __name__ == "__main__":
    main()
