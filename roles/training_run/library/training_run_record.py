#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: what this node knows of a run, for a control node that did not begin it."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_run_record
short_description: Tells what a node knows of a run
description:
  - Returns what role training_run wrote down when the run took this node. It is root's own record,
    which ranks can neither read nor write.
author: Trainyard
options:
  directory:
    description: Directory of the run.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Ask for the run
  training_run_record:
    directory: /srv/trainyard/runs/20261120T120000Z_vit_cifar10_b64_e5_n2_p1
  register: record
"""

RETURN = r"""
record:
  description:
    - C(run), C(owner), C(home), C(nodes), C(since) and C(manifest); null where the run was never
      here, or its files have been brought home.
  returned: always
  type: dict
"""

import json
import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node_directory import RunDirectory


def main() -> None:
    module = AnsibleModule(
        argument_spec={"directory": {"type": "path", "required": True}},
        supports_check_mode=True,
    )
    directory = RunDirectory(*os.path.split(module.params["directory"]))
    try:
        with open(directory.record, encoding="utf-8") as file:
            record = json.load(file)
    except (OSError, ValueError):
        record = None
    module.exit_json(changed=False, record=record)


if __name__ == "__main__":
    main()
