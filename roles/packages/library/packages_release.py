#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: which packages nobody needs once a role does not."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: packages_release
short_description: Says that packages are not wanted for themselves, and tells which nobody needs
description:
  - Marks packages as installed automatically and asks apt-get which of them no other package needs.
    A part of the action M(packages).
author: Trainyard
options:
  names:
    description: Installed packages.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Release Open MPI
  packages_release:
    names: [openmpi-bin]
"""

RETURN = r"""
unneeded:
  description: What no other package needs; of an own dry run all, because nothing was marked.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.packages_records import output_of, parse_removals


def main() -> None:
    module = AnsibleModule(
        argument_spec={"names": {"type": "list", "elements": "str", "required": True}},
        supports_check_mode=True,
    )
    names = module.params["names"]
    if module.check_mode:
        module.exit_json(changed=True, unneeded=names)
    try:
        output_of(["apt-mark", "auto", *names])
        simulation = output_of(
            [
                "apt-get",
                "--simulate",
                "-o",
                "APT::AutoRemove::RecommendsImportant=false",
                "-o",
                "APT::AutoRemove::SuggestsImportant=false",
                "autoremove",
            ]
        )
    except RuntimeError as error:
        module.fail_json(
            msg=f"packages: apt-get does not tell which packages nobody needs: {error}. "
            "Nothing was removed. `apt-get --fix-broken install` mends broken dependencies."
        )
    removals = set(parse_removals(simulation))
    module.exit_json(changed=True, unneeded=[name for name in names if name in removals])


if __name__ == "__main__":
    main()
