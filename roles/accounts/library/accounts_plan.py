#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: compare lists of groups and users with a machine."""

from __future__ import annotations

import os
from pathlib import Path

from ansible.module_utils.accounts_differences import (
    differences_of_absence,
    differences_of_presence,
)
from ansible.module_utils.accounts_lists import Lists
from ansible.module_utils.accounts_machine import read_machine
from ansible.module_utils.accounts_problems import problems_of_absence, problems_of_presence
from ansible.module_utils.basic import AnsibleModule

STATE = {"type": "str", "choices": ["present", "absent"], "default": "present"}
GROUP = {
    "name": {"type": "str", "required": True},
    "gid": {"type": "int"},
    "state": STATE,
}
USER = {
    "name": {"type": "str", "required": True},
    "uid": {"type": "int"},
    "group": {"type": "str"},
    "groups": {"type": "list", "elements": "str", "default": []},
    "groups_exclusive": {"type": "bool", "default": False},
    "comment": {"type": "str"},
    "home": {"type": "path"},
    "shell": {"type": "path"},
    "authorized_keys": {"type": "list", "elements": "str", "default": []},
    "authorized_keys_exclusive": {"type": "bool", "default": False},
    "sudo": {"type": "str", "choices": ["none", "password", "passwordless"], "default": "none"},
    "password_hash": {"type": "str", "no_log": True},
    "state": STATE,
    "remove_home": {"type": "bool", "default": False},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": STATE,
            "groups": {"type": "list", "elements": "dict", "options": GROUP, "default": []},
            "users": {"type": "list", "elements": "dict", "options": USER, "default": []},
            "login_user": {"type": "str", "required": True},
            "run_directory": {"type": "str", "default": ""},
            "record": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    parameters = module.params
    lists = Lists.of_parameters(parameters["groups"], parameters["users"])
    absent = parameters["state"] == "absent"
    try:
        machine = read_machine(lists, Path(parameters["record"]), parameters["run_directory"])
    except OSError as error:
        module.fail_json(msg=f"accounts: nothing was changed: {error}")
    login_user = os.environ.get("SUDO_USER") or parameters["login_user"]
    problems = (
        problems_of_absence(machine, login_user)
        if absent
        else problems_of_presence(lists, machine, login_user)
    )
    if problems:
        module.fail_json(msg="\n".join(["accounts: nothing was changed.", *problems]))
    differences = (
        differences_of_absence(lists, machine)
        if absent
        else differences_of_presence(lists, machine, module.check_mode)
    )
    notes = ("sudo_users", "new_groups", "new_users")  # accompany other differences
    module.exit_json(
        changed=False,
        differs=any(value for name, value in differences.items() if name not in notes),
        made_users=sorted(machine.made_users),
        made_groups=sorted(machine.made_groups),
        **differences,
    )


if __name__ == "__main__":
    main()
