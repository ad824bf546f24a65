#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: keeps runs off a node while it is worked on."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_run_reserve
short_description: Keeps runs off a node while it is worked on
description:
  - Takes the lock that a run would take, unless a run has the node. Of a launch and a reservation
    at the same instant one gets the node. A reservation ends with C(state=absent), or when nobody
    has ended it for two minutes while the node was up.
author: Trainyard
options:
  purpose:
    description: What is done on the node; who wants it meanwhile is told.
    type: str
    required: true
  owner:
    description: Who does it, for people.
    type: str
    required: true
  host:
    description: Name of this node.
    type: str
    required: true
  root:
    description: Directory of all runs. Where there is none, no run can come.
    type: path
    required: true
  state:
    description: Whether the node is to be reserved.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Keep runs off the node
  training_run_reserve:
    purpose: reboot
    owner: ada@control
    host: node1
    root: /srv/trainyard/runs
"""

RETURN = r"""
reserved:
  description: Whether there is a reservation now.
  returned: always
  type: bool
"""

import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.docker_socket import EngineError, containers
from ansible.module_utils.run_lock import described, guarded, holder, read, release, same, write


def reserve(root: str, lock: dict[str, Any]) -> str:
    """Write the lock, or return who has the node."""
    with guarded(root):
        found = holder(root)
        if found is not None and not same(found, lock):
            return f"it is held by {described(found)}: wait for it, or make stop RUN={found['run']}"
        running = [each for each in containers("trainyard.run") if each["State"] == "running"]
        if running:
            run = running[0]["Labels"]["trainyard.run"]
            return f"it is held by run {run}: wait for it, or make stop RUN={run}"
        # The lock of a run that died stays below: who comes next clears up after that run.
        write(root, {**lock, "below": read(root) if found is None else found.get("below")})
    return ""


def give_back(root: str, lock: dict[str, Any]) -> None:
    """Take the lock away if it is this reservation."""
    found = read(root)
    if found is None or not same(found, lock):
        return
    release(root, lock)
    if found.get("below"):
        with guarded(root):
            if read(root) is None:
                write(root, found["below"])


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "purpose": {"type": "str", "required": True},
            "owner": {"type": "str", "required": True},
            "host": {"type": "str", "required": True},
            "root": {"type": "path", "required": True},
            "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
        },
        supports_check_mode=True,
    )
    asked = module.params
    root, present = asked["root"], asked["state"] == "present"
    if module.check_mode or not os.path.isdir(root):
        module.exit_json(changed=False, reserved=False)
    lock = {
        "run": asked["purpose"],
        "owner": asked["owner"],
        "home": "",
        "nodes": [asked["host"]],
        "host": asked["host"],
        "since": time.time(),
    }
    if not present:
        give_back(root, lock)
        module.exit_json(changed=True, reserved=False)
    try:
        reason = reserve(root, lock)
    except EngineError as error:
        reason = f"{error}, so nobody can tell whether a run is on it: start it"
    if reason:
        module.fail_json(msg=f"{asked['host']}: no {asked['purpose']}, because {reason}")
    module.exit_json(changed=True, reserved=True)


if __name__ == "__main__":
    main()
