#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: which units of an engine run on although their package was replaced."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: docker_engine_replaced
short_description: Lists units that run on although their package was replaced
description:
  - Looks whether the program of docker.service or containerd.service is deleted, and whether
    systemd still holds the socket of docker.socket. Changes nothing.
author: Trainyard
"""

EXAMPLES = r"""
- name: Look for what runs on after its package was replaced
  docker_engine_replaced:
  register: docker_engine_replaced
"""

RETURN = r"""
units:
  description: The units that must be stopped before they can start from the new package.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.docker_engine_units import read_units, replaced_units


def main() -> None:
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    module.exit_json(changed=False, units=replaced_units(read_units()))


if __name__ == "__main__":
    main()
