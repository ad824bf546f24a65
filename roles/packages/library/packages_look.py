#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: which packages are installed, and which of them came with a role."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: packages_look
short_description: Tells which packages are missing, and which came with a role
description:
  - Reads dpkg's status and the records. Changes nothing. A part of the action M(packages).
author: Trainyard
options:
  owner:
    description: The role whose record is read.
    type: str
    required: true
  names:
    description: Packages that the role needs.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Look for Open MPI
  packages_look:
    owner: openmpi
    names: [openmpi-bin]
"""

RETURN = r"""
installed:
  description: Names of all packages that are installed.
  returned: always
  type: list
  elements: str
missing:
  description: Those of the names that are not installed.
  returned: always
  type: list
  elements: str
shared:
  description: Those of the names that another role brought, and this role's record does not have.
  returned: always
  type: list
  elements: str
record:
  description: Whether the role has a record.
  returned: always
  type: bool
removable:
  description: What the record has, no other record has, and is installed.
  returned: always
  type: list
  elements: str
configured:
  description: What the record has and is gone but for its configuration.
  returned: always
  type: list
  elements: str
empty:
  description: Directories of records that hold none.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.packages_records import (
    DIRECTORY,
    LIST_COMMAND,
    empty_directories,
    missing_requests,
    names_with,
    output_of,
    packages_to_share,
    parse_packages,
    read_records,
    records_of_others,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "owner": {"type": "str", "required": True},
            "names": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    owner, names = module.params["owner"], module.params["names"]
    try:
        packages = parse_packages(output_of(LIST_COMMAND))
        native = output_of(["dpkg", "--print-architecture"]).strip()
    except RuntimeError as error:
        module.fail_json(
            msg=f"packages: dpkg does not tell what is installed: {error}. "
            "`dpkg --configure -a` and `apt-get --fix-broken install` mend it."
        )
    records = read_records(DIRECTORY)
    own = set(records.get(owner, []))
    installed = names_with("installed", packages)
    module.exit_json(
        changed=False,
        installed=installed,
        missing=missing_requests(names, packages, native),
        shared=packages_to_share(owner, names, records),
        record=owner in records,
        removable=sorted((own & set(installed)) - records_of_others(records, owner)),
        configured=sorted(own & set(names_with("config-files", packages))),
        empty=[str(path) for path in empty_directories(DIRECTORY.parent)],
    )


if __name__ == "__main__":
    main()
