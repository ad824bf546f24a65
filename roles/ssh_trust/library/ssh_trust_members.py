#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Documentation of the action in action_plugins/ssh_trust_members.py."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: ssh_trust_members
short_description: Lists the nodes that trust each other, and how ssh reaches them
description:
  - Reads the variables of the hosts in the inventory. A host whose C(ssh_trust_state) is absent is
    none of them. Nothing is contacted.
author: Trainyard
options:
  hosts:
    description: Hosts that may be members.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: List the nodes that trust each other
  ssh_trust_members:
    hosts: "{{ groups['trainers'] }}"
  register: ssh_trust_inventory
  run_once: true
"""

RETURN = r"""
members:
  description: Names of the members, in the order of the inventory.
  returned: always
  type: list
  elements: str
hosts:
  description: >-
    The members, each with C(member), C(names), C(addresses), C(address), C(port),
    C(control_address) and C(control_port).
  returned: always
  type: list
  elements: dict
"""
