#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: compare the login shells that the inventory names with a machine."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: login_shell_plan
short_description: Compares login shells and the site's files for them with the machine
description:
  - Reads users, the record and the site's files once, and returns what differs. Changes nothing.
  - Fails with all problems where the inventory contradicts itself or the machine.
author: Trainyard
options:
  state:
    description: Whether the shells are set. Without users, too, they are given back.
    type: str
    choices: [present, absent]
    default: present
  users:
    description: Users, each with O(users[].name) and O(users[].shell).
    type: list
    elements: dict
    default: []
  programs:
    description: Paths by name of shell.
    type: dict
    required: true
  directories:
    description: Directories in front of PATH.
    type: list
    elements: str
    default: []
  listed_elsewhere:
    description: Users whose shell another role sets.
    type: list
    elements: str
    default: []
  files:
    description: Files of the site, each with shell, path and content.
    type: list
    elements: dict
    default: []
  blocks:
    description: Blocks in files, each with shell, path and content.
    type: list
    elements: dict
    default: []
  marker:
    description: First and last line of a block, with C({mark}) in place of BEGIN and END.
    type: str
    required: true
  record:
    description: Where the role keeps the shells of before.
    type: path
    required: true
  packages:
    description: Where the names of the packages are that came with the role.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Compare the shells with the machine
  login_shell_plan:
    users: [{name: ada, shell: zsh}]
    programs: {zsh: /usr/bin/zsh}
    marker: "# {mark} login_shell"
    record: /var/lib/trainyard/login_shell
    packages: /var/lib/trainyard/packages/login_shell
  register: login_shell_plan
"""

RETURN = r"""
state:
  description: What is to be brought about; empty where the role was never here and nobody is named.
  type: str
  returned: success
problems:
  description: Why nothing is done, each with code, values and text.
  type: list
  elements: dict
  returned: failure
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.login_shell_differences import (
    Settings,
    SiteFile,
    differences_of_absence,
    differences_of_presence,
    problems_of_absence,
    problems_of_presence,
    read_machine,
)
from ansible.module_utils.login_shell_problems import failure

TEXT = {"type": "str", "required": True}
SITE_FILE = {
    "type": "list",
    "elements": "dict",
    "default": [],
    "options": {"shell": TEXT, "path": {"type": "path", "required": True}, "content": TEXT},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "users": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {"name": TEXT, "shell": TEXT},
            },
            "programs": {"type": "dict", "required": True},
            "directories": {"type": "list", "elements": "str", "default": []},
            "listed_elsewhere": {"type": "list", "elements": "str", "default": []},
            "files": SITE_FILE,
            "blocks": SITE_FILE,
            "marker": TEXT,
            "record": {"type": "path", "required": True},
            "packages": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    parameters = module.params
    users, programs = parameters["users"], parameters["programs"]
    blocks = ({**block, "marker": parameters["marker"]} for block in parameters["blocks"])
    settings = Settings(
        users={user["name"]: programs[user["shell"]] for user in users},
        names=tuple(user["name"] for user in users),
        shells=frozenset(user["shell"] for user in users),
        directories=tuple(parameters["directories"]),
        listed_elsewhere=frozenset(parameters["listed_elsewhere"]),
        site_files=tuple(SiteFile(**file) for file in (*parameters["files"], *blocks)),
    )
    machine = read_machine(settings, Path(parameters["record"]), Path(parameters["packages"]))
    if parameters["state"] == "absent" or not (users or machine.changes is None):
        state = "absent"
        problems = problems_of_absence(machine)
        differences = differences_of_absence(settings, machine)
    elif users:
        state = "present"
        problems = problems_of_presence(settings, machine, module.check_mode)
        differences = differences_of_presence(settings, machine)
    else:
        state, problems, differences = "", [], {}
    if problems:
        module.fail_json(**failure("login_shell: nothing was changed.", problems))
    module.exit_json(changed=False, state=state, **differences)


if __name__ == "__main__":
    main()
