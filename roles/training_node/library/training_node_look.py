#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: whether a node has the packages and directories that runs or checks need."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_node_look
short_description: Tells which packages and directories a node lacks
description:
  - Reads dpkg's status, the records of role packages and the directories, all in one go. Changes
    nothing.
author: Trainyard
options:
  owner:
    description: The role in whose record the packages are.
    type: str
    required: true
  packages:
    description: Packages that are to be installed.
    type: list
    elements: str
    required: true
  directories:
    description: Directories that are to be root's, with their modes.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Look at what the node has
  training_node_look:
    owner: training_node
    packages: [rsync]
    directories: {/srv/trainyard/runs: "0711"}
"""

RETURN = r"""
packages:
  description: Packages that are to come, or into the record.
  returned: always
  type: list
  elements: str
directories:
  description: Directories that are not as they are to be.
  returned: always
  type: list
  elements: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.packages_records import unsettled


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "owner": {"type": "str", "required": True},
            "packages": {"type": "list", "elements": "str", "required": True},
            "directories": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    module.check_mode = True  # attributes are compared, not set

    def is_missing(directory: str, mode: str) -> bool:
        wanted = {"owner": "root", "group": "root", "mode": mode}
        arguments = module.load_file_common_arguments(wanted, path=directory)
        return not Path(directory).is_dir() or module.set_fs_attributes_if_different(
            arguments, False
        )

    try:
        packages = unsettled(module.params["owner"], module.params["packages"])
    except RuntimeError:
        # The action that installs them says what is wrong.
        packages = module.params["packages"]
    wanted = module.params["directories"]
    directories = [directory for directory, mode in wanted.items() if is_missing(directory, mode)]
    module.exit_json(changed=False, packages=packages, directories=directories)


if __name__ == "__main__":
    main()
