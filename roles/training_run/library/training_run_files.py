#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: the small files of a run, all in one task."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_run_files
short_description: Writes the small files of a run on a node
description:
  - Writes several files in one task. M(ansible.builtin.template) costs two round trips a file,
    which a launch with six files would pay six times.
author: Trainyard
options:
  directory:
    description: Directory of the run.
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
    description: Path below O(directory) to content. Files are readable by their owner alone.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Write the run's files
  training_run_files:
    directory: /srv/trainyard/runs/20261120T120000Z_vit_cifar10_b64_e5_n2_p1
    uid: 2000
    gid: 2000
    files:
      hostfile: |
        node1 slots=1
"""

RETURN = r"""
written:
  description: Paths that were written.
  returned: always
  type: list
  elements: str
"""

import json
import os

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "uid": {"type": "int", "required": True},
            "gid": {"type": "int", "required": True},
            "files": {"type": "dict", "required": True},
        },
    )
    written = []
    for name, content in module.params["files"].items():
        path = os.path.join(module.params["directory"], name)
        # Ansible may have read a JSON document out of a string on its way here.
        text = content if isinstance(content, str) else json.dumps(content, indent=2) + "\n"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.chown(path, module.params["uid"], module.params["gid"])
        written.append(path)
    module.exit_json(changed=True, written=written)


if __name__ == "__main__":
    main()
