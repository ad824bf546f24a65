#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: which machines a site lacks, and which it has too many."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: ec2_machines_plan
short_description: Compares the machines of a site with what is asked for
description:
  - Computes; it asks nobody and changes nothing.
  - Fails where machines that are there are of another type, or are paid in another way.
author: Trainyard
options:
  site:
    description: Name of the site.
    type: str
    required: true
  count:
    description: How many machines there are to be.
    type: int
    required: true
  hours:
    description: Hours from now to the deadline.
    type: float
    required: true
  prolong:
    description: Whether machines that are there get this deadline too.
    type: bool
    default: false
  instance_type:
    description: Type of the machines.
    type: str
    required: true
  market:
    description: on-demand or spot.
    type: str
    required: true
  image:
    description: What was asked for, for messages.
    type: str
    required: true
  images:
    description: Images, as amazon.aws.ec2_ami_info gives them.
    type: list
    elements: dict
    required: true
  subnets:
    description: Subnets, as amazon.aws.ec2_vpc_subnet_info gives them.
    type: list
    elements: dict
    required: true
  zones:
    description: Zones that have machines of this type.
    type: list
    elements: str
    required: true
  volumes:
    description: Disks of each machine, the system's first.
    type: list
    elements: dict
    required: true
  instances:
    description: The machines that are there, as amazon.aws.ec2_instance_info gives them.
    type: list
    elements: dict
    required: true
  offer:
    description: What ec2_machines_offer says of the type.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Plan
  ec2_machines_plan:
    site: lab
    count: 2
    hours: 8
    instance_type: g5.2xlarge
    market: spot
    image: 136693071363/debian-13-*
    images: "{{ images }}"
    subnets: "{{ subnets }}"
    zones: [eu-central-1a]
    volumes: [{gigabytes: 100}]
    instances: "{{ instances }}"
    offer: "{{ offer }}"
"""

RETURN = r"""
plan:
  description: >-
    C(make), names of machines to start; C(keep) and C(remove), machines that stay and go;
    C(prolong), ids of those that get C(deadline); C(nameless) and C(names), ids that lack a name
    and theirs; C(hours) to the deadline; image, disks, subnet, network and zone of new machines;
    C(offer).
  returned: success
  type: dict
"""

from datetime import UTC, datetime

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.ec2_machines_planning import PlanError, plan


def main() -> None:
    """Run the module."""
    listed = {"type": "list", "elements": "dict", "required": True}
    module = AnsibleModule(
        argument_spec={
            "site": {"type": "str", "required": True},
            "count": {"type": "int", "required": True},
            "hours": {"type": "float", "required": True},
            "prolong": {"type": "bool", "default": False},
            "instance_type": {"type": "str", "required": True},
            "market": {"type": "str", "required": True},
            "image": {"type": "str", "required": True},
            "images": listed,
            "subnets": listed,
            "zones": {"type": "list", "elements": "str", "required": True},
            "volumes": listed,
            "instances": listed,
            "offer": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    try:
        found = plan(module.params, datetime.now(UTC))
    except PlanError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, plan=found)


if __name__ == "__main__":
    main()
