#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: keeps runs off a node while it is worked on."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_node_reserve
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
  training_node_reserve:
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
problems:
  description: Who has the node, with host, code, values and text.
  returned: where it could not be reserved
  type: list
  elements: dict
"""

import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node.engine.containers import EngineError, containers
from ansible.module_utils.training_node.runs.lock import (
    guarded,
    holder_values,
    holders,
    put,
    release,
    same,
    since_boot,
)
from ansible.module_utils.training_node_problems import Problem, problem


def reserve(root: str, lock: dict[str, Any]) -> Problem | None:
    """Write the lock, or return who has the node."""
    with guarded(root):
        for present in holders(root):
            if not same(present, lock):
                return problem("held", **holder_values(present))
        for container in containers("trainyard.run"):
            if container["State"] == "running":
                return problem("held_by_container", run=container["Labels"]["trainyard.run"])
        # The lock of a run that died stays: who comes next clears up after that run.
        put(root, lock)
    return None


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
    options = module.params
    root, present = options["root"], options["state"] == "present"
    if module.check_mode or not os.path.isdir(root):
        module.exit_json(changed=False, reserved=False)
    lock = {
        "run": options["purpose"],
        "owner": options["owner"],
        "home": "",
        "nodes": [options["host"]],
        "host": options["host"],
        "since": time.time(),
        "begun": since_boot(),
    }
    if not present:
        release(root, lock)
        module.exit_json(changed=True, reserved=False)
    refused = f"{options['host']}: no {options['purpose']}, because"
    try:
        hindrance = reserve(root, lock)
    except EngineError as error:
        module.fail_json(
            msg=f"{refused} {error}, so nobody can tell whether a run is on it: start it"
        )
    if hindrance is not None:
        module.fail_json(
            msg=f"{refused} {hindrance.text}",
            problems=[{"host": options["host"], **hindrance.asdict()}],
        )
    module.exit_json(changed=True, reserved=True)


if __name__ == "__main__":
    main()
