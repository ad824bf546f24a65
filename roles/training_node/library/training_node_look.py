#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: whether a node has the packages and directories that runs or checks need.

Tells which packages a role of this name lacks, or its record, and which directories are not root's
with the mode that they are to have. Changes nothing.
"""

from __future__ import annotations

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
