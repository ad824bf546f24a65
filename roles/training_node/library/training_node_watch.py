#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: has a node look at itself every few seconds, while somebody reads it."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_node_watch
short_description: Has a node look at itself for as long as somebody reads it
description:
  - Starts a process on the node, unless one is there, that keeps in C(.watch/state.json) below
    O(root) what the verb C(status) of C(node/) tells, and the ends of the ranks' logs as C(logs).
    It ends, and leaves nothing, when nobody has touched C(.watch/asked) for 20 seconds.
author: Trainyard
options:
  root:
    description: Directory of all runs.
    type: path
    required: true
  host:
    description: Name of this node.
    type: str
    required: true
  every:
    description: Seconds between two looks.
    type: float
    default: 2
"""

EXAMPLES = r"""
- name: Have the node look at itself
  training_node_watch:
    root: /srv/trainyard/runs
    host: node1
"""

RETURN = r"""
started:
  description: Whether there was no such process before.
  returned: always
  type: bool
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node_keeper import Keeper


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "host": {"type": "str", "required": True},
            "every": {"type": "float", "default": 2.0},
        }
    )
    root = module.params["root"]
    if not os.path.isdir(root):
        module.fail_json(msg=f"there is no {root}: run make setup")
    keeper = Keeper(root, module.params["host"], module.params["every"])
    module.exit_json(changed=False, started=keeper.start())


if __name__ == "__main__":
    main()
