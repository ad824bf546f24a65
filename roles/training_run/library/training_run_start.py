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
    description: Path below the run's directory to content. Files are readable by their owner alone.
    type: dict
    required: true
  secrets:
    description:
      - Environment of the ranks that nobody else shall see, by name; what is empty is left out.
        It reaches them in the file C(.environment), a line each, which goes with the run's keys.
        Arguments of mpirun are seen by all, and the container's own environment by whoever may
        ask the engine.
    type: dict
    default: {}
  name:
    description: Name of the container.
    type: str
    required: true
  container:
    description: The container, as the Docker Engine API's ContainerCreate describes it.
    type: dict
    required: true
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
      hostfile: |
        node1 slots=1
    name: trainyard-20261120T120000Z_vit_cifar10_b64_e5_n2_p1
    container:
      Image: trainyard/trainer:1f2e3d4c5b6a
    address: 10.0.0.11
    port: 2222
"""

RETURN = r"""
name:
  description: The container that was started.
  returned: always
  type: str
"""

import json
import os
import socket
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.docker_socket import EngineError, is_running, logs, run
from ansible.module_utils.run_lock import guarded, read, same
from ansible.module_utils.run_records import ENVIRONMENT


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
    lock = read(root)
    return lock is not None and same(lock, run) and not lock.get("ending", False)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "run_id": {"type": "str", "required": True},
            "home": {"type": "str", "required": True},
            "root": {"type": "path", "required": True},
            "uid": {"type": "int", "required": True},
            "gid": {"type": "int", "required": True},
            "files": {"type": "dict", "required": True},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
            "name": {"type": "str", "required": True},
            "container": {"type": "dict", "required": True},
            "address": {"type": "str", "required": True},
            "port": {"type": "int", "required": True},
            "wait": {"type": "float", "default": 15.0},
        },
    )
    asked = module.params
    directory = os.path.join(asked["root"], asked["run_id"])
    try:
        secrets = lines_of(asked["secrets"])
    except ValueError as error:
        module.fail_json(msg=f"training_run_secrets: {error}")
    for name, content in {**asked["files"], **({ENVIRONMENT: secrets} if secrets else {})}.items():
        path = os.path.join(directory, name)
        parent = os.path.dirname(path)
        if not os.path.isdir(parent):
            os.makedirs(parent)
            os.chown(parent, asked["uid"], asked["gid"])
        # Ansible may have read a JSON document out of a string on its way here.
        text = content if isinstance(content, str) else json.dumps(content, indent=2) + "\n"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.chown(path, asked["uid"], asked["gid"])
    try:
        # A launch that is interrupted may leave this module running: what it started after the end
        # of the run would be nobody's.
        with guarded(asked["root"]):
            if not may_start(asked["root"], {"run": asked["run_id"], "home": asked["home"]}):
                module.fail_json(msg="The run was ended before it had started.")
            run(asked["name"], asked["container"])
        deadline = time.monotonic() + asked["wait"]
        while not listens(asked["address"], asked["port"]):
            if not is_running(asked["name"]) or time.monotonic() > deadline:
                said = logs(asked["name"]).decode(errors="replace")
                module.fail_json(
                    msg=f"sshd in the container does not listen on {asked['address']} port "
                    f"{asked['port']}. The container said:\n{said[-2000:]}"
                )
            time.sleep(0.1)
    except EngineError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True, name=asked["name"])


if __name__ == "__main__":
    main()
