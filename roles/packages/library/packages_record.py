#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: the record of the packages that came with a role."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: packages_record
short_description: Keeps the record of the packages that came with a role
description:
  - Adds what is installed now and was not before. A part of the action M(packages).
  - A record that goes away leaves to the roles that share a package with it what is still
    installed, and takes directories with it that hold nothing any more.
author: Trainyard
options:
  owner:
    description: The role. The record bears its name.
    type: str
    required: true
  before:
    description: Names of the packages that were installed before.
    type: list
    elements: str
    default: []
  shared:
    description: Packages that another role brought, and this role needs too.
    type: list
    elements: str
    default: []
  state:
    description: Whether there is a record.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Record what came
  packages_record:
    owner: openmpi
    before: [libc6]
"""

RETURN = r"""
recorded:
  description: What was added.
  returned: with O(state=present)
  type: list
  elements: str
"""

import os
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.packages_records import (
    DIRECTORY,
    LIST_COMMAND,
    empty_directories,
    names_with,
    output_of,
    parse_packages,
    read_records,
    with_block,
)


def append(module: AnsibleModule, record: Path, names: list[str]) -> dict[str, str]:
    """Add packages to a record, and return the difference as Ansible shows it."""
    before = record.read_text(encoding="utf-8") if record.exists() else ""
    after = with_block(before, names)
    if not module.check_mode:
        DIRECTORY.mkdir(mode=0o755, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=module.tmpdir)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(after)
        module.atomic_move(temporary, str(record))
        record.chmod(0o644)
    return {"before": before, "after": after, "before_header": str(record)}


def forget(module: AnsibleModule, owner: str, installed: set[str]) -> dict[str, Any]:
    """Remove a record, and return the result of the module."""
    records = read_records(DIRECTORY)
    own = records.get(owner)
    differences = []
    if own is not None:
        for other, names in records.items():
            left = sorted((set(own) & installed) - set(names))
            if other != owner and set(own) & set(names) and left:
                differences.append(append(module, DIRECTORY / other, left))
        text = (DIRECTORY / owner).read_text(encoding="utf-8")
        differences.append({"before": text, "after": "", "before_header": str(DIRECTORY / owner)})
        if not module.check_mode:
            (DIRECTORY / owner).unlink()
    empty = empty_directories(DIRECTORY.parent)
    if not module.check_mode:
        for path in empty:
            path.rmdir()
    return {"changed": own is not None or bool(empty), "diff": differences}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "owner": {"type": "str", "required": True},
            "before": {"type": "list", "elements": "str", "default": []},
            "shared": {"type": "list", "elements": "str", "default": []},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
        no_log=True,  # on the node: not the names of all packages in its journal
    )
    owner = module.params["owner"]
    try:
        installed = set(names_with("installed", parse_packages(output_of(LIST_COMMAND))))
    except RuntimeError as error:
        module.fail_json(
            msg=f"packages: dpkg does not tell what is installed, and the record of {owner} stays "
            f"as it was: {error}. `dpkg --configure -a` mends an installation that broke off."
        )
    if module.params["state"] == "absent":
        module.exit_json(**forget(module, owner, installed))
    came = (installed - set(module.params["before"])) | set(module.params["shared"])
    # One that was removed by hand and came back is there already.
    new = sorted(came - set(read_records(DIRECTORY).get(owner, [])))
    if not new:
        module.exit_json(changed=False, recorded=[])
    difference = append(module, DIRECTORY / owner, new)
    module.exit_json(changed=True, recorded=new, diff=[difference])


if __name__ == "__main__":
    main()
