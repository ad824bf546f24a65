#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: starts the container of a run on a node, with the small files it reads."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_run_start
short_description: Starts a run's container on a node
description:
  - Writes the files of the run, makes and starts its container, and waits for the container's sshd.
    One task, because a launch waits for every round trip.
author: Trainyard
options:
  run_id:
    description: The run, which must hold the node and must not be ending.
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
  uid:
    description: User id that owns the files.
    type: int
    required: true
  gid:
    description: Group id that owns the files.
    type: int
    required: true
  files:
    description:
      - Path below the directory of what the container is given, to content. What mpirun starts the
        ranks with is made here of O(launch).
    type: dict
    required: true
  secrets:
    description:
      - Environment of the ranks that nobody else shall see, by name; what is empty is left out.
        It reaches them in the file C(environment), a line each, which goes with the run's keys.
        Arguments of mpirun are seen by all, and the container's own environment by whoever may
        ask the engine.
    type: dict
    default: {}
  facts:
    description: What is to be known of the node; it goes home as C(nodes/<hostname>/facts.json).
    type: dict
    required: true
  container:
    description: The container of this node.
    type: dict
    required: true
    suboptions:
      image:
        description: The image, with its tag.
        type: str
        required: true
      hostname:
        description: Name of the node.
        type: str
        required: true
      user:
        description: Account that the ranks run as.
        type: str
        required: true
      data:
        description: Directory on the node that holds the data sets.
        type: path
        required: true
      folder:
        description: >-
          A folder of the node that the ranks get in their place, at C(/data) and its own path.
        type: str
        default: ""
      gpus:
        description: NVIDIA GPUs, C(all) or their numbers or UUIDs with commas between.
        type: str
        default: ""
      render_devices:
        description: Files of its AMD GPUs, as C(/dev/dri/renderD128). C(/dev/kfd) comes along.
        type: list
        elements: str
        default: []
      shm_gigabytes:
        description: Size of C(/dev/shm), in 2^30 bytes.
        type: int
        required: true
      memory_gigabytes:
        description: >-
          Limit of its memory, in 2^30 bytes; 0 for none. Without it what the node has, less a
          reserve for the node itself, C(5 %) and a GiB at least.
        type: float
      memory_share:
        description: The part of the machine's memory that is this node's.
        type: float
        default: 1
      part:
        description: >-
          The part of the node that the run has, above 0 to 1: of its memory, shared memory and
          cores.
        type: float
        default: 1
      processes:
        description: Limit of its processes and threads.
        type: int
        default: 8192
  launch:
    description: >-
      What is started in the containers. The first of the nodes gets the arguments of mpirun.
    type: dict
    required: true
    suboptions:
      command:
        description: The trainer's subcommand.
        type: str
        choices: [train, bench, verify]
        required: true
      nodes:
        description: All nodes of the run, the launcher first.
        type: list
        elements: str
        required: true
      addresses:
        description: Address on the training network of each.
        type: dict
        required: true
      ports:
        description: Port of the sshd in the container of each.
        type: dict
        required: true
      host_keys:
        description: Public host key of that sshd of each.
        type: dict
        required: true
      client_key:
        description: Public key that the launcher logs in with.
        type: str
        required: true
      slots:
        description: Ranks on each node, in the order of nodes.
        type: list
        elements: int
        required: true
      cores:
        description: Cores that the run has on each node, in the order of nodes.
        type: list
        elements: int
        required: true
      gpus:
        description: GPUs that the run has on the node where it has the fewest.
        type: int
        required: true
      threads:
        description: Threads that a rank computes with; 0 shares the cores out among the ranks.
        type: int
        default: 0
      network:
        description: CIDR of the training network; empty lets Open MPI choose.
        type: str
        default: ""
      interfaces:
        description: Names of the interfaces there, each once; one that is not known is empty.
        type: list
        elements: str
        default: []
      start_seconds:
        description: How long a training may take to its first step; 0 for ever.
        type: int
        default: 0
      stall_seconds:
        description: How long it may then go without a step; 0 for ever.
        type: int
        default: 0
      silence_seconds:
        description: >-
          After how long without a sign of life a project's ranks write what they do; 0 for never.
        type: int
        default: 0
      job_seconds:
        description: After how many seconds mpirun ends the ranks; 0 for never.
        type: int
        default: 0
      dataset:
        description: The data set, a directory below that of the data sets.
        type: str
        required: true
      batch_per_rank:
        description: Images a rank and step.
        type: int
        required: true
      project:
        description: Whether the ranks run the program of a project.
        type: bool
        default: false
      program_per:
        description: Whether that is started for each C(rank) or once on each C(node).
        type: str
        choices: [rank, node]
        default: rank
      grace_seconds:
        description: How long a project's ranks may take to end when they are asked to.
        type: int
        default: 30
      copy_megabytes:
        description: >-
          How much of the checkpoints is copied to another node in a second at the most, in 10^6
          bytes; 0 for no copies.
        type: float
        default: 0
      bench:
        description: What C(bench) measures, with C(models), C(rounds) and C(seconds).
        type: dict
        required: true
      bf16:
        description: Whether whatever computes in the run multiplies bf16.
        type: bool
        required: true
      profile:
        description: >-
          The transport, whose C(mca) and C(environment) are set; C(rdma) gives devices for RDMA.
        type: dict
        default: {}
      without_spare_core:
        description: C(mca) and C(environment) where the ranks compute on every core.
        type: dict
        default: {}
      mca:
        description: MCA parameters of Open MPI that win over all others.
        type: dict
        default: {}
      environment:
        description: Environment of every rank that wins over all others.
        type: dict
        default: {}
  address:
    description: Address that the container's sshd listens on.
    type: str
    required: true
  port:
    description: Its port.
    type: int
    required: true
  wait:
    description: Seconds to wait for it.
    type: float
    default: 15
"""

EXAMPLES = r"""
- name: Start the container
  training_run_start:
    run_id: 20261120T120000Z_vit_cifar10_b64_e5_n2_p1
    home: /home/ada/trainyard/runs/20261120T120000Z_vit_cifar10_b64_e5_n2_p1
    root: /srv/trainyard/runs
    uid: 2000
    gid: 2000
    files:
      config.json: {model: vit}
    facts:
      host: node1
    container:
      image: trainyard/trainer:1f2e3d4c5b6a
      hostname: node1
      user: trainer
      data: /srv/trainyard/data
      shm_gigabytes: 2
    launch:
      command: train
      nodes: [node1]
      addresses: {node1: 10.0.0.11}
      ports: {node1: 2222}
      host_keys: {node1: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9Q}
      client_key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDx7
      slots: [1]
      cores: [2]
      gpus: 0
      dataset: cifar10
      batch_per_rank: 64
      bench: {models: [vit], rounds: 5, seconds: 5}
      bf16: false
    address: 10.0.0.11
    port: 2222
"""

RETURN = r"""
name:
  description: The container that was started.
  returned: always
  type: str
problems:
  description: >-
    Why there was no room for its files, or its data cannot be mounted, with host, code, values and
    text.
  returned: where the disk of the node is full, or the folder of the data is gone
  type: list
  elements: dict
"""

import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node.engine.containers import is_running, logs, run
from ansible.module_utils.training_node.engine.docker import EngineError
from ansible.module_utils.training_node.engine.gpus import gpu_host_configuration
from ansible.module_utils.training_node.machine.hardware import memory_bytes
from ansible.module_utils.training_node.runs.lock import container_of, guarded, own
from ansible.module_utils.training_node.runs.untrusted import open_directory, open_file
from ansible.module_utils.training_node_account import KEEPER, with_account
from ansible.module_utils.training_node_directory import (
    ARGUMENTS,
    ENVIRONMENT,
    HOSTFILE,
    RunDirectory,
)
from ansible.module_utils.training_node_folder import FolderError, find_mount
from ansible.module_utils.training_run_code import copy_project
from ansible.module_utils.training_run_collect import PROJECTS, give
from ansible.module_utils.training_run_container import Container, memory_limit, rdma_devices
from ansible.module_utils.training_run_mpirun import Bench, Launch, Settings
from ansible.module_utils.training_run_records import (
    FACTS,
    json_record,
    remove_tree,
    write_record,
)
from ansible.module_utils.training_run_room import NoRoomError, error_of, room_for, size_of
from ansible.module_utils.training_run_ssh import login_files

# Of what the container is given, what goes home.
RECORDS = ("config.json", HOSTFILE, ARGUMENTS, "program.json")
METRICS = "metrics.jsonl"
# In `resume`: what this very node had, beside what the first node had.
OWN = "own"
RENDER = re.compile(r"/dev/dri/renderD\d{1,4}", re.ASCII)
# Nodes say what theirs are called, and mpirun's arguments stand a line each in a file.
INTERFACE = re.compile(r"[\w.:@-]{1,15}", re.ASCII)


def lines_of(secrets: dict[str, Any]) -> str:
    """Return an environment as lines.

    Raises:
        ValueError: a value has more than one line; the message names it without its value.
    """
    lines = []
    for name, value in secrets.items():
        if "\n" in str(value):
            raise ValueError(f"the value of {name} must be one line")
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


def container_for(options: dict[str, Any], directory: RunDirectory) -> Container:
    """Return the container that the module's options describe.

    Raises:
        EngineError: nothing gives GPUs to containers here, or a GPU is none.
        FolderError: the folder that the ranks are to read is not to be mounted.
    """
    launch, container = options["launch"], dict(options["container"])
    uid, gid = options["uid"], options["gid"]
    gpus, folder = container.pop("gpus"), container.pop("folder")
    gigabytes, share = container.pop("memory_gigabytes"), container.pop("memory_share")
    part = container["part"]
    # They come from what this node said of itself, by way of the control node.
    strange = [path for path in container["render_devices"] if not RENDER.fullmatch(path)]
    if strange:
        raise EngineError(f"{strange[0]} is no GPU")
    return Container(
        **container,
        folder=find_mount(folder, uid, gid, options["root"]) if folder else "",
        memory_bytes=int(memory_limit(gigabytes, share, memory_bytes()) * part),
        cores=len(os.sched_getaffinity(0)) * part if part < 1 else 0,
        gpus=gpu_host_configuration(gpus),
        rdma=rdma_devices() if launch["profile"].get("rdma") else (),
        run_id=options["run_id"],
        directory=directory,
        uid=uid,
        gid=gid,
        command=launch["command"],
        # When a project's program takes its first step, and whether it has steps, nobody knows.
        start_seconds=0 if launch["project"] else launch["start_seconds"],
        stall_seconds=launch["stall_seconds"],
        silence_seconds=launch["silence_seconds"] if launch["project"] else 0,
        grace_seconds=launch["grace_seconds"] if launch["project"] else 0,
        copy_megabytes=launch["copy_megabytes"],
        nodes=launch["nodes"],
        addresses=launch["addresses"],
        ports=launch["ports"],
    )


def launch_for(launch: dict[str, Any]) -> Launch:
    """Return the launch that the module's options describe."""
    bench = launch["bench"]
    return Launch(
        command=launch["command"],
        slots=tuple(launch["slots"]),
        cores=tuple(launch["cores"]),
        gpus=launch["gpus"],
        threads=launch["threads"],
        network=launch["network"],
        interfaces=tuple(
            name if INTERFACE.fullmatch(name) else "" for name in launch["interfaces"]
        ),
        stall_seconds=launch["stall_seconds"],
        job_seconds=launch["job_seconds"],
        dataset=f"/data/{launch['dataset']}",
        batch_per_rank=launch["batch_per_rank"],
        project=launch["project"],
        program_per=launch["program_per"],
        bench=Bench(tuple(bench["models"]), bench["rounds"], bench["seconds"], bf16=launch["bf16"]),
        profile=Settings.of(launch["profile"]),
        without_spare_core=Settings.of(launch["without_spare_core"]),
        further=Settings.of(launch),
    )


def files_for(options: dict[str, Any]) -> dict[str, Any]:
    """Return what the container of this node is given: path below `config` to content.

    Raises:
        ValueError: see `lines_of`.
    """
    hostname, launch = options["container"]["hostname"], options["launch"]
    user = options["container"]["user"]
    files: dict[str, Any] = dict(options["files"])
    files |= login_files(launch, user, options["address"], options["port"])
    if hostname == launch["nodes"][0]:
        files[ARGUMENTS] = "\n".join(launch_for(launch).arguments()) + "\n"
    secrets = lines_of(options["secrets"])
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
            os.fchown(file.fileno(), uid if name == ENVIRONMENT else KEEPER, gid)
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
        {"user": uid, "group": gid, "extra_groups": []} if KEEPER == 0 else {}
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


def prepare(directory: RunDirectory, options: dict[str, Any], files: dict[str, Any]) -> None:
    """Write all that the container finds.

    Args:
        options: of this module.
        files: see `files_for`.

    Raises:
        NoRoomError: the disk is full.
        OSError: it cannot be written for another reason.
    """
    uid, gid, host = options["uid"], options["gid"], options["container"]["hostname"]
    facts = json_record(options["facts"])

    def undo() -> None:
        # What goes home is whole, or home has what an attempt before had.
        remove_tree(directory.records(host))
        for name in RECORDS:
            remove_tree(os.path.join(directory.collect, name))

    size = len(facts) + len(json.dumps(files))
    with room_for("the files of the run", directory.path, lambda: size, undo):
        write_files(directory, files, uid, gid)
        write_record(directory, host, FACTS, facts)
    copy_project(directory, uid, gid)
    hand_over(directory, uid, gid)


CONTAINER_OPTIONS = {
    "image": {"type": "str", "required": True},
    "hostname": {"type": "str", "required": True},
    "user": {"type": "str", "required": True},
    "data": {"type": "path", "required": True},
    "folder": {"type": "str", "default": ""},
    "gpus": {"type": "str", "default": ""},
    "render_devices": {"type": "list", "elements": "str", "default": []},
    "shm_gigabytes": {"type": "int", "required": True},
    "memory_gigabytes": {"type": "float"},
    "memory_share": {"type": "float", "default": 1.0},
    "part": {"type": "float", "default": 1.0},
    "processes": {"type": "int", "default": 8192},
}
LAUNCH_OPTIONS = {
    "command": {"type": "str", "required": True, "choices": ["train", "bench", "verify"]},
    "nodes": {"type": "list", "elements": "str", "required": True},
    "addresses": {"type": "dict", "required": True},
    "ports": {"type": "dict", "required": True},
    "host_keys": {"type": "dict", "required": True},
    "client_key": {"type": "str", "required": True},
    "slots": {"type": "list", "elements": "int", "required": True},
    "cores": {"type": "list", "elements": "int", "required": True},
    "gpus": {"type": "int", "required": True},
    "threads": {"type": "int", "default": 0},
    "network": {"type": "str", "default": ""},
    "interfaces": {"type": "list", "elements": "str", "default": []},
    "start_seconds": {"type": "int", "default": 0},
    "stall_seconds": {"type": "int", "default": 0},
    "silence_seconds": {"type": "int", "default": 0},
    "job_seconds": {"type": "int", "default": 0},
    "dataset": {"type": "str", "required": True},
    "batch_per_rank": {"type": "int", "required": True},
    "project": {"type": "bool", "default": False},
    "program_per": {"type": "str", "choices": ["rank", "node"], "default": "rank"},
    "grace_seconds": {"type": "int", "default": 30},
    "copy_megabytes": {"type": "float", "default": 0},
    "bench": {"type": "dict", "required": True},
    "bf16": {"type": "bool", "required": True},
    "profile": {"type": "dict", "default": {}},
    "without_spare_core": {"type": "dict", "default": {}},
    "mca": {"type": "dict", "default": {}},
    "environment": {"type": "dict", "default": {}},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "run_id": {"type": "str", "required": True},
            "home": {"type": "str", "required": True},
            "root": {"type": "path", "required": True},
            "uid": {"type": "int", "required": True},
            "gid": {"type": "int", "required": True},
            "files": {"type": "dict", "required": True},
            "facts": {"type": "dict", "required": True},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
            "container": {"type": "dict", "required": True, "options": CONTAINER_OPTIONS},
            "launch": {"type": "dict", "required": True, "options": LAUNCH_OPTIONS},
            "address": {"type": "str", "required": True},
            "port": {"type": "int", "required": True},
            "wait": {"type": "float", "default": 15.0},
        },
    )
    options = with_account(module.params)
    directory = RunDirectory(options["root"], options["run_id"])
    name = container_of(options["run_id"])
    try:
        files = files_for(options)
    except ValueError as error:
        module.fail_json(msg=f"training_run_secrets: {error}")
    try:
        prepare(directory, options, files)
    except NoRoomError as error:
        module.fail_json(**error.result(options["container"]["hostname"]))
    except OSError as error:
        module.fail_json(msg=f"The files of the run could not be written: {error}")
    try:
        # A launch that is interrupted may leave this module running: what it started after the end
        # of the run would be nobody's.
        with guarded(options["root"]):
            if not may_start(options["root"], {"run": options["run_id"], "home": options["home"]}):
                module.fail_json(msg="The run was ended before it had started.")
            run(name, container_for(options, directory).configuration())
        deadline = time.monotonic() + options["wait"]
        while not listens(options["address"], options["port"]):
            if not is_running(name) or time.monotonic() > deadline:
                said = (logs(name) or b"").decode(errors="replace")
                module.fail_json(
                    msg=f"sshd in the container does not listen on {options['address']} port "
                    f"{options['port']}. The container said:\n{said[-2000:]}"
                )
            time.sleep(0.1)
    except EngineError as error:
        module.fail_json(msg=str(error))
    except FolderError as error:  # it was there when the node was looked at
        host = options["container"]["hostname"]
        module.fail_json(
            msg=f"The run was not started.\n{host}: {error.problem.text}",
            problems=[{"host": host, **error.problem.asdict()}],
        )
    module.exit_json(changed=True, name=name)


if __name__ == "__main__":
    main()
