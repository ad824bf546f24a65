#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Documentation of the action in action_plugins/packages.py."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: packages
short_description: Packages of the distribution for a role, which can be taken away again
description:
  - Installs packages with M(ansible.builtin.apt), without what they only recommend, and records on
    the machine and for each role which ones were not there before, dependencies included. Package
    lists that are older than an hour are fetched anew.
  - Where something is missing, the packages that the variable C(packages_ahead) lists come in the
    same run of apt. A play sets it to what its other roles will ask for, whose records get those
    packages too when they do.
  - Where nothing is missing it reads dpkg's status and does nothing else.
  - Takes away what the record of the role names, with its configuration. Packages that were there
    before stay, and so do those that another role needs too, and those that a package from
    elsewhere has come to need. Debian's packages leave the users and groups that they made, because
    files may bear their numbers.
  - A dry run fetches package lists that are too old, because without them it could not tell.
author: Trainyard
options:
  owner:
    description: The role that needs the packages. The record bears its name.
    type: str
    required: true
  names:
    description: Packages to install, each a name, with C(=VERSION) behind it where it matters.
    type: list
    elements: str
    default: []
  start_services:
    description: >-
      Whether the packages may start their services. A role that writes settings first says no.
    type: bool
    default: true
  state:
    description: Whether the packages are there. Absent are all that the record of the role names.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Install Open MPI
  packages:
    owner: openmpi
    names: [openmpi-bin, libopenmpi-dev]

- name: Remove what came with it
  packages:
    owner: openmpi
    state: absent
"""

RETURN = r"""
missing:
  description: Those of the names that were not installed.
  returned: with O(state=present)
  type: list
  elements: str
recorded:
  description: >-
    What was added to the role's record, dependencies included. A dry run tells of those that
    another role brought.
  returned: with O(state=present), where something was added
  type: list
  elements: str
removed:
  description: What was removed.
  returned: with O(state=absent)
  type: list
  elements: str
"""
