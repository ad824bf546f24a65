#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Documentation of the action in action_plugins/local_cluster_layout.py."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: local_cluster_layout
short_description: Lays out the nodes of a local cluster
description:
  - Tells names, addresses, images and processor cores of the nodes. Looks at nothing and changes
    nothing.
author: Trainyard
options:
  name:
    description: Prefix of containers.
    type: str
    required: true
  size:
    description: How many nodes.
    type: int
    required: true
  network:
    description: Network of the nodes, as CIDR.
    type: str
    required: true
  images:
    description: What the nodes are made from, in turns.
    type: list
    elements: str
    required: true
  cores:
    description: How many processor cores the machine has.
    type: int
    required: true
  virtual:
    description: Names of the nodes that are virtual machines.
    type: list
    elements: str
    default: []
  directory:
    description: Where virtual machines have their disks.
    type: path
    required: true
  taps:
    description: Prefix of the network interfaces of virtual machines.
    type: str
    required: true
  gpus:
    description: NVIDIA GPUs of nodes that are containers, by the name of the node.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Lay out the nodes
  local_cluster_layout:
    name: trainyard
    size: 2
    network: 10.117.0.0/24
    images: ["trainyard/node:trixie-0123456789ab"]
    cores: 8
    directory: /srv/cluster
    taps: tv-
"""

RETURN = r"""
nodes:
  description: All nodes, each with name, container, address, image and cores.
  returned: always
  type: list
  elements: dict
containers:
  description: Those of them that are containers, with their C(gpus), where they have some.
  returned: always
  type: list
  elements: dict
virtual:
  description: Those of them that are virtual machines, also with disk and tap.
  returned: always
  type: list
  elements: dict
"""
