#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: takes a node for a run: its lock, its directory, its keys."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_run_take
short_description: Takes a node for a run
description:
  - Locks the node for a run. Of two launches at the same instant one gets it; a lock whose run is
    dead is taken over, and what that run left is put in order.
  - Makes the directories of the run, a host key for the sshd in this node's container and a client
    key for the launcher. Private keys never leave the node; the public ones are returned.
author: Trainyard
options:
  run_id:
    description: The run.
    type: str
    required: true
  owner:
    description: Who runs it, for people.
    type: str
    required: true
  home:
    description: Where its logs go on the control node; two runs of one id differ in it.
    type: str
    required: true
  nodes:
    description: All nodes of the run, the launcher first.
    type: list
    elements: str
    required: true
  host:
    description: Name of this node.
    type: str
    required: true
  root:
    description: Directory of all runs.
    type: path
    required: true
  uid:
    description: User id that owns the run's directory.
    type: int
    required: true
  gid:
    description: Group id that owns it.
    type: int
    required: true
  manifest:
    description: >-
      What the control node knows of the run; kept with the lock, for whoever goes on with the run
      from another one.
    type: dict
    default: {}
  code:
    description:
      - The code of the run. In a task, its folders on the control node, C(trainer) and
        C(project), of which the files that the node lacks are sent.
      - For the module itself, path to object; see module_utils/training_run_listing.py.
    type: dict
    required: true
  gigabytes:
    description: How much of what an earlier attempt of this run left here is kept, in 10^9 bytes.
    type: float
    default: 100
  files:
    description: How many files of it are.
    type: int
    default: 10000
  patience:
    description: Seconds to wait for a younger run that may have to give its nodes back.
    type: int
    default: 10
"""

EXAMPLES = r"""
- name: Take the node
  training_run_take:
    run_id: 20261120T120000Z_vit_cifar10_b64_e5_n2_p1
    owner: ada@control
    home: /home/ada/trainyard/runs/20261120T120000Z_vit_cifar10_b64_e5_n2_p1
    nodes: [node1, node2]
    host: node1
    root: /srv/trainyard/runs
    uid: 2000
    gid: 2000
    code:
      trainer: /home/ada/trainyard/trainer
"""

RETURN = r"""
host_key:
  description: Public key of the sshd in this node's container.
  returned: always
  type: str
client_key:
  description: Public key that this node's container logs in with.
  returned: always
  type: str
missing:
  description: Objects of the code that the node lacks. The run has its code when there are none.
  returned: where the node was taken
  type: list
  elements: str
problems:
  description: Why the node could not be taken, with host, code, values and text.
  returned: where it could not be taken
  type: list
  elements: dict
"""

import json
import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node_directory import RunDirectory
from ansible.module_utils.training_node_docker import EngineError, containers, remove
from ansible.module_utils.training_node_facts import oom_kills
from ansible.module_utils.training_node_lock import (
    age,
    guarded,
    holder,
    holder_values,
    read,
    same,
    since_boot,
    write,
)
from ansible.module_utils.training_node_problems import problem
from ansible.module_utils.training_run_code import CodeStore, lay_out_run
from ansible.module_utils.training_run_collect import Limits, collect
from ansible.module_utils.training_run_records import keep_records, remove_keys, remove_tree
from ansible.module_utils.training_run_room import NoRoomError, error_of, room_for

# What the ranks find in their directory.
WORK = ("logs", "ranks", "nodes", "checkpoints")
RESERVE_BYTES = 1 << 20


def take(root: str, lock: dict[str, Any], patience: int) -> dict[str, Any] | None:
    """Write the lock, or return the one of the run that has the node.

    Two launches that each hold a node the other wants would both fail. The younger fails at once
    and gives back what it has, and the older waits for that (the scheme is called wait-die).
    """
    deadline = time.monotonic() + patience
    while True:
        present: dict[str, Any] | None
        with guarded(root):
            present = holder(root)
            if present is None or same(present, lock):
                clear_dead_run(root)
                write(root, lock)
                return None
        just_taken = age(present) < patience
        older = (lock["run"], lock["home"]) < (present["run"], present["home"])
        if not (older and just_taken and time.monotonic() < deadline):
            return present
        time.sleep(0.2)


def clear_dead_run(root: str) -> None:
    """Remove the containers of a run that has ended unwatched; its files stay for its owner."""
    stale = read(root)
    if stale is None:
        return
    directory = RunDirectory(root, stale["run"])
    for container in containers(f"trainyard.run={stale['run']}"):
        keep_records(container["Id"], directory, stale["host"])
        remove(container["Id"])
    remove_keys(directory)


def set_aside(directory: RunDirectory, host: str, limits: Limits) -> None:
    """Keep what an attempt of this very run left that nobody could bring home.

    It may be the only checkpoints. It is put below `collect/earlier`, by the time of the attempt
    (UTC) and the node, and comes home with the files of the new one.
    """
    if not directory.exists():
        return
    began = time.gmtime(os.stat(directory.path).st_ctime)
    name = f"{time.strftime('%Y%m%dT%H%M%SZ', began)}-{host}"
    collect(directory, host, limits)
    earlier = os.path.join(directory.collect, "earlier")
    os.makedirs(os.path.join(earlier, name), exist_ok=True)
    for left in os.listdir(directory.collect):
        if left != "earlier":
            os.rename(os.path.join(directory.collect, left), os.path.join(earlier, name, left))
    # Where the first node has died since, they are all that there is of its checkpoints.
    for copied, kept in (("checkpoints", "copies"), ("workdir", "copies-workdir")):
        if os.path.isdir(os.path.join(directory.copies, copied)):
            os.rename(os.path.join(directory.copies, copied), os.path.join(earlier, name, kept))
    for path in (
        *(directory.config, directory.code, directory.work, directory.resume),
        directory.copies,
    ):
        remove_tree(path)


def make_directories(directory: RunDirectory, uid: int, gid: int) -> None:
    """Make the directory of a run: what root keeps, and what the ranks may write."""
    os.makedirs(directory.path, exist_ok=True)
    # Who carries the files to and from the node is an ordinary user there, and passes through.
    os.chmod(directory.path, 0o711)
    for path, mode in (
        (directory.collect, 0o700),
        (directory.config, 0o750),
        (directory.ssh, 0o750),
        (directory.code, 0o750),
    ):
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
        os.chown(path, 0, gid)
    # The ranks' own last: what is theirs may change while root looks at it.
    os.makedirs(directory.work, mode=0o700, exist_ok=True)
    for name in WORK:
        path = os.path.join(directory.work, name)
        os.makedirs(path, exist_ok=True)
        os.chown(path, uid, gid, follow_symlinks=False)
    os.chown(directory.work, uid, gid, follow_symlinks=False)
    with open(directory.reserve, "wb") as file:
        file.write(bytes(RESERVE_BYTES))


def keep_run(directory: RunDirectory, record: dict[str, Any]) -> None:
    """Write down what is known of a run; ranks and other users cannot read it."""
    descriptor = os.open(directory.record, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(record, file)


def make_keys(module: AnsibleModule, directory: RunDirectory, uid: int, gid: int) -> dict[str, str]:
    """Make the keys of a run on this node; return the public ones by the files' names.

    The private ones can be read by the ranks, whose sshd and ssh take no key that is anybody
    else's as well.
    """
    keys = {}
    for name in ("ssh_host_ed25519_key", "id_ed25519"):
        path = os.path.join(directory.ssh, name)
        if not os.path.exists(path):
            status, _, words = module.run_command(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path]
            )
            if status:
                raise error_of(words)
        os.chmod(path, 0o400)
        os.chown(path, uid, gid)
        with open(path + ".pub", encoding="ascii") as public:
            keys[name] = public.read().strip()
    return keys


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "run_id": {"type": "str", "required": True},
            "owner": {"type": "str", "required": True},
            "home": {"type": "str", "required": True},
            "nodes": {"type": "list", "elements": "str", "required": True},
            "host": {"type": "str", "required": True},
            "root": {"type": "path", "required": True},
            "uid": {"type": "int", "required": True},
            "gid": {"type": "int", "required": True},
            "manifest": {"type": "dict", "default": {}},
            "code": {"type": "dict", "required": True},
            "gigabytes": {"type": "float", "default": 100.0},
            "files": {"type": "int", "default": 10000},
            "patience": {"type": "int", "default": 10},
        },
    )
    options = module.params
    directory = RunDirectory(options["root"], options["run_id"])
    lock = {
        "run": options["run_id"],
        "owner": options["owner"],
        "home": options["home"],
        "nodes": options["nodes"],
        "host": options["host"],
        "since": time.time(),
        "begun": since_boot(),
        "oom_kills": oom_kills(),
    }
    try:
        with room_for("its lock", options["root"], lambda: RESERVE_BYTES, lambda: None):
            present = take(options["root"], lock, options["patience"])
    except NoRoomError as error:
        module.fail_json(**error.result(options["host"]))
    except EngineError as error:
        hindrance = problem("no_engine", message=str(error))
        module.fail_json(
            msg=hindrance.text, problems=[{"host": options["host"], **hindrance.asdict()}]
        )
    if present is not None:
        hindrance = problem("taken", **holder_values(present))
        module.fail_json(
            msg=f"Nothing was started.\n{options['host']}: {hindrance.text}",
            problems=[{"host": options["host"], **hindrance.asdict()}],
        )

    limits = Limits(int(options["gigabytes"] * 10**9), options["files"])
    try:
        with room_for("the run's directory", options["root"], lambda: RESERVE_BYTES, lambda: None):
            set_aside(directory, options["host"], limits)
            make_directories(directory, options["uid"], options["gid"])
            keep_run(directory, {**lock, "manifest": options["manifest"]})
            keys = make_keys(module, directory, options["uid"], options["gid"])
        missing = CodeStore(options["root"]).missing(options["code"].values())
        if not missing:
            lay_out_run(options["root"], directory, options["code"], options["gid"])
    except NoRoomError as error:
        module.fail_json(**error.result(options["host"]))
    except OSError as error:
        module.fail_json(msg=f"The directory of the run could not be made: {error}")
    module.exit_json(
        changed=True,
        host_key=keys["ssh_host_ed25519_key"],
        client_key=keys["id_ed25519"],
        missing=missing,
    )


if __name__ == "__main__":
    main()
