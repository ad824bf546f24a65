#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Documentation of the action in action_plugins/package_sources.py."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: package_sources
short_description: How a machine reaches packages
description:
  - Reads certificates and a repository of packages on the control node, compares with the machine
    in one module, and changes what differs.
  - What is empty is as it was before the action came to the machine.
author: Trainyard
options:
  http_proxy:
    description: Proxy of apt for sources of http.
    type: str
    default: ""
  https_proxy:
    description: Proxy of apt for sources of https.
    type: str
    default: ""
  no_proxy:
    description: Names, domains (.example.org) and networks reached without it, between commas.
    type: str
    default: ""
  mirror:
    description: Address in place of those of the distribution's archive.
    type: str
    default: ""
  security_mirror:
    description: Address in place of those of the distribution's security updates.
    type: str
    default: ""
  ca:
    description: File of the control node with certificates to trust, PEM.
    type: path
    default: ""
  bundle:
    description: Directory of the control node with C(debian/RELEASE/), flat repositories.
    type: path
    default: ""
  state:
    description: Absent takes all back.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Reach packages through the site's proxy
  package_sources:
    http_proxy: http://proxy.example.org:3128
    https_proxy: http://proxy.example.org:3128
"""
