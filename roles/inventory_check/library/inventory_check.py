#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: find mistakes in an inventory, all together, before anything is changed."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: inventory_check
short_description: Finds mistakes in the inventory
description:
  - Reads inventory, group_vars and the roles' argument_specs.yml on the control node, and fails
    with a list of all mistakes, each with file, line and remedy. Changes nothing.
author: Trainyard
options:
  sources:
    description: Files and directories of the inventory.
    type: list
    elements: path
    required: true
  site:
    description: Directory of the site-wide group_vars.
    type: path
    required: true
  roles:
    description: Directory of the roles.
    type: path
    required: true
  playbook:
    description: The playbook whose groups must exist.
    type: path
    required: true
  known:
    description: Further variables that an inventory may set.
    type: list
    elements: str
    default: []
  groups:
    description: The groups of the inventory, with the hosts of each.
    type: dict
    required: true
  hosts:
    description: The variables of each host. Only the values of networks and addresses are read.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Look for mistakes in the inventory
  inventory_check:
    sources: "{{ ansible_inventory_sources }}"
    site: "{{ playbook_dir }}"
    roles: "{{ playbook_dir }}/../roles"
    playbook: "{{ playbook_dir }}/../site.yml"
    groups: "{{ groups }}"
    hosts: "{{ dict(hostvars) }}"
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.inventory_files import (
    declared_variables,
    directory_definitions,
    group_files,
    groups_of_plays,
    inventory_definitions,
)
from ansible.module_utils.inventory_problems import (
    misnamed_files,
    missing_groups,
    network_problems,
    unknown_variables,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "sources": {"type": "list", "elements": "path", "required": True},
            "site": {"type": "path", "required": True},
            "roles": {"type": "path", "required": True},
            "playbook": {"type": "path", "required": True},
            "known": {"type": "list", "elements": "str", "default": []},
            "groups": {"type": "dict", "required": True},
            "hosts": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    hosts, groups = given["hosts"], given["groups"]
    roles = Path(given["roles"]).resolve()
    checkout = roles.parent
    declared = declared_variables(roles)
    site = list(directory_definitions(Path(given["site"])))
    definitions = [*inventory_definitions(given["sources"]), *site]
    known = [*given["known"], *(definition.name for definition in site)]
    problems = [
        *missing_groups(groups_of_plays(Path(given["playbook"])), groups, hosts),
        *misnamed_files(group_files(given["sources"]), groups, checkout),
        *unknown_variables(definitions, hosts, declared, known, checkout),
        *network_problems(definitions, hosts, groups, declared, checkout),
    ]
    if problems:
        count = f"{len(problems)} mistakes" if len(problems) > 1 else "a mistake"
        lines = [f"The inventory has {count}. Nothing was changed.", *problems]
        module.fail_json(msg="\n".join(lines))
    module.exit_json(changed=False)


if __name__ == "__main__":
    main()
