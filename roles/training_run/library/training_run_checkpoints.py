#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: lays what comes home from a run that goes on ready to be brought there."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_run_checkpoints
short_description: Lays the checkpoints and events of a run ready to be brought home
description:
  - Puts the files that are in the run's checkpoints now, and those of its working directory that a
    project calls checkpoints, plain ones within the limits, into a directory of their own that
    O(carrier) may read; on the node that starts the ranks, the files of events that TensorBoard
    shows too. They are further names of the same files, so that nothing is copied; the ranks go on
    with theirs.
author: Trainyard
options:
  directory:
    description: Directory of the run.
    type: path
    required: true
  host:
    description: Name of this node.
    type: str
    required: true
  carrier:
    description: Id of the user that brings the files home.
    type: int
    required: true
  gigabytes:
    description: How much may go home, in 10^9 bytes.
    type: float
    default: 100
  files:
    description: How many files may.
    type: int
    default: 10000
"""

EXAMPLES = r"""
- name: Lay checkpoints and events ready
  training_run_checkpoints:
    directory: /srv/trainyard/runs/20261120T120000Z_vit_cifar10_b64_e5_n2_p1
    host: node1
    carrier: 1000
"""

RETURN = r"""
names:
  description: The checkpoints that are ready, by their paths at home.
  returned: always
  type: list
  elements: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node_directory import RunDirectory
from ansible.module_utils.training_run_collect import Limits, offer_live


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "host": {"type": "str", "required": True},
            "carrier": {"type": "int", "required": True},
            "gigabytes": {"type": "float", "default": 100.0},
            "files": {"type": "int", "default": 10000},
        },
    )
    options = module.params
    directory = RunDirectory(*os.path.split(options["directory"]))
    limits = Limits(int(options["gigabytes"] * 10**9), options["files"])
    try:
        names = offer_live(directory, options["host"], options["carrier"], limits)
    except FileNotFoundError:
        module.fail_json(msg="The run is over: what it left comes home with its end.")
    except OSError as error:
        module.fail_json(msg=f"Checkpoints and events could not be laid ready: {error}")
    module.exit_json(changed=True, names=names)


if __name__ == "__main__":
    main()
