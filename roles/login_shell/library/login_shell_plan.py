#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: compare the login shells that the inventory names with a machine."""

from __future__ import annotations

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
    state, problems, differences = "", [], {}
    if parameters["state"] == "absent" or not (users or machine.changes is None):
        state, problems = "absent", [*problems_of_absence(machine)]
        differences = differences_of_absence(settings, machine)
    elif users:
        state, problems = "present", [*problems_of_presence(settings, machine, module.check_mode)]
        differences = differences_of_presence(settings, machine)
    if problems:
        module.fail_json(msg="\n".join(["login_shell: nothing was changed.", *problems]))
    module.exit_json(changed=False, state=state, **differences)


if __name__ == "__main__":
    main()
