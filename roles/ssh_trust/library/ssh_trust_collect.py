#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Documentation of the action in action_plugins/ssh_trust_collect.py."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: ssh_trust_collect
short_description: Puts public keys together as sshd and ssh read them
description:
  - Makes the lines of known_hosts and authorized_keys that all nodes have in common. The last word
    of a line is the node's name. Its work grows linearly with the number of nodes.
  - Fails where a node shows something else than a key of type ssh-ed25519, such as several lines.
author: Trainyard
options:
  members:
    description: The nodes that trust each other.
    type: list
    elements: str
    required: true
  user:
    description: The user who logs in from node to node.
    type: str
    required: true
  nodes:
    description: The nodes of this run.
    type: list
    elements: str
    required: true
  readings:
    description: For each of O(nodes) the result of M(ssh_trust_keys).
    type: list
    elements: dict
    required: true
  others:
    description: Results of a loop of M(ssh_trust_keys) over the members outside this run.
    type: list
    elements: dict
    default: []
  control_name:
    description: What stands for the control node in the list of keys.
    type: str
    default: ""
  control:
    description: The result of M(ssh_trust_keys) on the control node, where that has a key.
    type: dict
    default: {}
  hosts:
    description: >-
      As M(ssh_trust_members) returns them; their addresses are from where their keys may come.
    type: list
    elements: dict
    default: []
  restrict:
    description: Whether the keys open commands and a terminal alone, and forward nothing.
    type: bool
    default: true
  to_loopback:
    description: Whether nodes may reach ports of each other's loopback all the same.
    type: bool
    default: false
  from_own_addresses:
    description: Whether a node's key is let in from the node's own addresses alone.
    type: bool
    default: true
  sources:
    description: Addresses and networks from which all nodes may come beside.
    type: list
    elements: str
    default: []
  control_sources:
    description: The same of the control node; without any it may come from everywhere.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Bring the keys together
  ssh_trust_collect:
    members: [node1, node2]
    user: trainer
    nodes: [node1, node2]
    readings: "{{ groups['trainers'] | map('extract', hostvars, 'ssh_trust_own_keys') }}"
  register: ssh_trust_collected
  run_once: true
"""

RETURN = r"""
known_hosts:
  description: A line for the host key of each node that was read.
  returned: always
  type: list
  elements: str
authorized_keys:
  description: A line for each key of the user.
  returned: always
  type: list
  elements: str
rotation:
  description: Whether any node has the second key of a rotation.
  returned: always
  type: bool
silent:
  description: Members whose keys could not be read.
  returned: always
  type: list
  elements: str
"""
