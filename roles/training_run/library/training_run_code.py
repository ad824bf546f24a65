#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: takes the code of a run out of an archive that was sent to the node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_run_code
short_description: Takes the code of a run out of an archive
description:
  - Keeps the files that came for later runs, and gives the run its code. M(training_run_take) has
    taken the node for it, and calls this one where the node lacks files.
author: Trainyard
options:
  run_id:
    description: The run.
    type: str
    required: true
  root:
    description: Directory of all runs.
    type: path
    required: true
  gid:
    description: Group id of the ranks, which can read the code.
    type: int
    required: true
  code:
    description: >-
      For C(trainer) and C(project), path to object; see module_utils/training_run_listing.py.
    type: dict
    required: true
  archive:
    description: Where the archive is on the node.
    type: path
    required: true
  host:
    description: Name of this node.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Take the code out
  training_run_code:
    run_id: 20261120T120000Z_vit_cifar10_b64_e5_n2_p1
    root: /srv/trainyard/runs
    gid: 2000
    code: {trainer: {__init__.py: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855}}
    archive: /tmp/code.tar.gz
    host: node1
"""

RETURN = r"""
received:
  description: How many files came.
  returned: always
  type: int
problems:
  description: Why there was no room for it, with host, code, values and text.
  returned: where the disk of the node is full
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node_account import with_account
from ansible.module_utils.training_node_directory import RunDirectory
from ansible.module_utils.training_run_code import receive_run
from ansible.module_utils.training_run_listing import CodeError
from ansible.module_utils.training_run_room import NoRoomError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "run_id": {"type": "str", "required": True},
            "root": {"type": "path", "required": True},
            "gid": {"type": "int", "required": True},
            "code": {"type": "dict", "required": True},
            "archive": {"type": "path", "required": True},
            "host": {"type": "str", "required": True},
        },
    )
    options = with_account(module.params)
    directory = RunDirectory(options["root"], options["run_id"])
    try:
        received = receive_run(
            options["archive"], options["root"], directory, options["code"], options["gid"]
        )
    except NoRoomError as error:
        module.fail_json(**error.result(options["host"]))
    except (CodeError, OSError) as error:
        module.fail_json(msg=f"The code of the run could not be brought here: {error}")
    module.exit_json(changed=True, received=len(received))


if __name__ == "__main__":
    main()
