#!/usr/bin/python
"""Ansible module: which units of an engine run on although their package was replaced."""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node.setup.docker_engine_units import read_units, replaced_units


def main() -> None:
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    module.exit_json(changed=False, units=replaced_units(read_units()))


if __name__ == "__main__":
    main()
