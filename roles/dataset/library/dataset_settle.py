#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: checks what came of a data set, and puts it in place."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: dataset_settle
short_description: Checks what came of a data set, and puts it in place
description:
  - Compares every file that came with the manifest, by SHA-256. Only when all of them are right,
    the data set is put in place, in one step. It is root's then, and everybody can read it.
author: Trainyard
options:
  directory:
    description: Directory of all data sets.
    type: path
    required: true
  name:
    description: Name of the data set.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Put it in place
  dataset_settle:
    directory: /srv/trainyard/data
    name: faces
"""

RETURN = r"""
files:
  description: How many files the data set has.
  returned: always
  type: int
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.dataset_files import DataError
from ansible.module_utils.dataset_place import Place


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "name": {"type": "str", "required": True},
        },
    )
    options = module.params
    try:
        files = Place(options["directory"], options["name"]).settle()
    except DataError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"The data set could not be put in place: {error}")
    module.exit_json(changed=True, files=files)


if __name__ == "__main__":
    main()
