#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: which runs a node has, how far they are, and how busy the node is."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_node_status
short_description: Tells what runs on a node, and how busy it is
description:
  - Lists every run that holds the node, has a container on it, or has left a directory there, and
    looks how busy the machine is. Changes nothing.
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
"""

EXAMPLES = r"""
- name: Look what runs here
  training_node_status:
    root: /srv/trainyard/runs
    host: node1
"""

RETURN = r"""
runs:
  description: >-
    One entry a run: C(run), C(state) (C(starting), C(running) once a rank of this node has begun,
    C(ended): it waits to be collected), C(owner), C(since) and C(home) where they are known, the
    newest line of its metrics (C(metric)) and one that lies before it (C(earlier)), which only the
    first node has, its C(nodes): where they are not known, this one; and the C(gpus) of this node
    that it holds, by number, none where it holds the whole node.
  returned: always
  type: list
  elements: dict
load:
  description: >-
    How busy the machine is: C(cpu_percent) of all C(cores), C(memory_used_bytes) of
    C(memory_bytes), C(disk_free_bytes) of C(disk_bytes) where the runs are, and C(gpus), each with
    C(index), C(name), C(utilisation_percent), C(memory_used_bytes) and C(memory_bytes). Null where
    it cannot be told.
  returned: always
  type: dict
time:
  description: Unix seconds of this node's clock.
  returned: always
  type: float
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node_amd import sample_amd_gpus
from ansible.module_utils.training_node_engine import EngineError
from ansible.module_utils.training_node_load import Gpus, ProcessorLook, load
from ansible.module_utils.training_node_runs import runs_of

# Between two looks at the processor, in seconds: whoever asked waits for the second one. Its times
# are counted in hundredths for each core: on two cores one of them is 4 %.
LOOK_SECONDS = 0.12


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "host": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    root, host = module.params["root"], module.params["host"]
    if not os.path.isdir(root):
        module.fail_json(msg=f"there is no {root}: run make setup")
    before, looked_at = ProcessorLook(), time.monotonic()
    gpus = Gpus()
    try:
        runs = runs_of(root, host)
    except EngineError as error:
        module.fail_json(msg=f"{error}: run make setup")
    time.sleep(max(0.0, looked_at + LOOK_SECONDS - time.monotonic()))
    busy = load(root, before, gpus.sample() or sample_amd_gpus())
    module.exit_json(changed=False, runs=runs, load=busy, time=time.time())


if __name__ == "__main__":
    main()
