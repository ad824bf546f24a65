#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: what a node lacks of a data set, and whether there is room for it."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: dataset_stage
short_description: Makes a node ready for what it lacks of a data set
description:
  - Compares every file that is in place with the manifest, by SHA-256. Where something is to come,
    sees that there is room, and makes a folder for it, with the good files in it. What is in place
    stays as it is.
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
  uid:
    description: Id of the user who sends.
    type: int
    required: true
"""

EXAMPLES = r"""
- name: See what is missing
  dataset_stage:
    directory: /srv/trainyard/data
    name: faces
    uid: 1000
"""

RETURN = r"""
complete:
  description: Whether nothing is missing.
  returned: always
  type: bool
missing:
  description: How many files are to come.
  returned: always
  type: int
missing_bytes:
  description: How large they are together.
  returned: always
  type: int
files:
  description: The folder that they are to come to.
  returned: always
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.dataset_files import DataError
from ansible.module_utils.dataset_place import Place


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "name": {"type": "str", "required": True},
            "uid": {"type": "int", "required": True},
        },
        supports_check_mode=True,
    )
    options = module.params
    try:
        place = Place(options["directory"], options["name"])
        stage = place.look()[0] if module.check_mode else place.stage(options["uid"])
    except DataError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"The data set could not be looked at: {error}")
    module.exit_json(changed=not stage.complete, files=place.files, **stage._asdict())


if __name__ == "__main__":
    main()
