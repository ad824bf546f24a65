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
problems:
  description: Why the node could not be taken, with host, code, values and text.
  returned: where it could not be taken
  type: list
  elements: dict
"""

import os
import shutil
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node_docker import EngineError, containers, remove
from ansible.module_utils.training_node_facts import oom_kills
from ansible.module_utils.training_node_lock import (
    guarded,
    holder,
    holder_values,
    read,
    same,
    write,
)
from ansible.module_utils.training_node_problems import problem
from ansible.module_utils.training_run_records import keep_records, remove_keys

DIRECTORIES = {
    "": 0o755,
    "ssh": 0o700,
    "logs": 0o755,
    "ranks": 0o755,
    "nodes": 0o755,
    "checkpoints": 0o755,
}
# Removed before anything is recorded of a run, so that a full disk still holds the records.
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
                clear_dead_run(root, lock)
                write(root, lock)
                return None
        just_taken = time.time() - float(present["since"]) < patience
        older = (lock["run"], lock["home"]) < (present["run"], present["home"])
        if not (older and just_taken and time.monotonic() < deadline):
            return present
        time.sleep(0.2)


def clear_dead_run(root: str, lock: dict[str, Any]) -> None:
    """Remove the containers of a run that has ended unwatched; its files stay for its owner.

    Not so where this very run starts again on a node that could not be reached when it failed.
    """
    stale = read(root)
    if stale is None:
        return
    directory = os.path.join(root, stale["run"])
    for container in containers(f"trainyard.run={stale['run']}"):
        keep_records(container["Id"], directory, stale["host"])
        remove(container["Id"])
    remove_keys(directory)
    if same(stale, lock):
        shutil.rmtree(directory, ignore_errors=True)


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
            "patience": {"type": "int", "default": 10},
        },
    )
    options = module.params
    lock = {
        "run": options["run_id"],
        "owner": options["owner"],
        "home": options["home"],
        "nodes": options["nodes"],
        "host": options["host"],
        "since": time.time(),
        "oom_kills": oom_kills(),
    }
    try:
        present = take(options["root"], lock, options["patience"])
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

    directory = os.path.join(options["root"], options["run_id"])
    uid, gid = options["uid"], options["gid"]
    for name, mode in DIRECTORIES.items():
        path = os.path.join(directory, name)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
        os.chown(path, uid, gid)
    with open(os.path.join(directory, ".reserve"), "wb") as file:
        file.write(bytes(RESERVE_BYTES))
    keys = {}
    for name in ("ssh_host_ed25519_key", "id_ed25519"):
        path = os.path.join(directory, "ssh", name)
        if not os.path.exists(path):
            module.run_command(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], check_rc=True
            )
        for part in (path, path + ".pub"):
            os.chown(part, uid, gid)
        with open(path + ".pub", encoding="ascii") as public:
            keys[name] = public.read().strip()
    module.exit_json(
        changed=True, host_key=keys["ssh_host_ed25519_key"], client_key=keys["id_ed25519"]
    )


if __name__ == "__main__":
    main()
