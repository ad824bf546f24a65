#!/usr/bin/python
"""Ansible module: which machines a site lacks, and which it has too many.

Computes; it asks nobody and changes nothing. `images`, `subnets` and `instances` are as the
modules ec2_ami_info, ec2_vpc_subnet_info and ec2_instance_info of amazon.aws give them, `offer` and
`zones` as ec2_machines_offer does; `image` is what was asked for, and `volumes` the disks of each
machine, the system's first. With `prolong` machines that are there get the deadline too.
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
