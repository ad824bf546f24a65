#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Documentation of the action in action_plugins/trainer_image_registry.py."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: trainer_image_registry
short_description: Moves an image through a registry that runs for the time of the task
description:
  - A push has a registry on a port of the control node's loopback take the image from the engine
    there. Its data stay, so that the next push sends what is new. What no image uses any more goes.
  - A pull has a registry that takes nothing, on a socket of the control node that its owner alone
    reaches. An SSH connection of the task's own leads to it from a port of the node's loopback. The
    node fetches by digest, so that nobody on its way can put another image in its place.
  - With a node that forwards no port, nothing is changed and RV(delivered) is false.
  - With O(peers), the first nodes get the image from the control node, each through a cache
    (C(trainer_image_cache)). The others fetch from these caches over SSH, each as O(peer_user), and
    from the control node where that fails.
  - Pushes wait for each other and for pulls of the same directory.
author: Trainyard
options:
  operation:
    description: Whether the registry gets the image or gives it.
    type: str
    choices: [push, pull]
    required: true
  program:
    description: The registry's program, C(docker-registry) of CNCF Distribution 2.8.
    type: path
    required: true
  directory:
    description: Directory on the control node for the registry's data.
    type: path
    required: true
  reference:
    description: The image, with its tag.
    type: str
    required: true
  digest:
    description: What a push returned. A pull needs it.
    type: str
  nodes:
    description: The nodes that fetch the image at the same time, this one among them.
    type: list
    elements: str
    default: []
  peers:
    description: How many of them get it from the control node and pass it on; 0 is none.
    type: int
    default: 0
  peer_user:
    description: Who logs in from node to node. Empty has the nodes pass nothing on.
    type: str
    default: ""
  meeting:
    description: What a push returned. A pull needs it.
    type: str
"""

EXAMPLES = r"""
- name: Hand the image to the registry
  trainer_image_registry:
    operation: push
    program: /srv/registry/docker-registry
    directory: /srv/registry
    reference: trainyard/trainer:1f2e3d4c5b6a
  register: trainer_image_pushed
  delegate_to: localhost
  run_once: true

- name: Fetch it from there
  trainer_image_registry:
    operation: pull
    program: /srv/registry/docker-registry
    directory: /srv/registry
    reference: trainyard/trainer:1f2e3d4c5b6a
    digest: "{{ trainer_image_pushed.digest }}"
    meeting: "{{ trainer_image_pushed.meeting }}"
"""

RETURN = r"""
digest:
  description: SHA-256 of the image's manifest.
  returned: after a push
  type: str
meeting:
  description: Name of a directory beside the data, in which the pulls that belong to the push meet.
  returned: after a push
  type: str
delivered:
  description: Whether the node holds the image now.
  returned: after a pull
  type: bool
reason:
  description: Why the registry is no way to this node.
  returned: when not delivered
  type: str
peer:
  description: The node that the image came from, where that was not the control node.
  returned: after a pull from a peer
  type: str
peer_reason:
  description: Why a peer was no way to the image, where the control node then was asked.
  returned: when a peer was asked in vain
  type: str
sent_bytes:
  description: What the control node sent to this node.
  returned: after a pull
  type: int
"""
