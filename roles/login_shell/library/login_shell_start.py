#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: start shells as their users, as a login does."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: login_shell_start
short_description: Starts shells as their users, as a login does
description:
  - Logs in as each user with all of the user's own files, which can end a shell as well as a broken
    program can. Fails with all shells that do not start, take too long, are not in C(/etc/shells)
    or make way for another program. Changes nothing itself.
author: Trainyard
options:
  users:
    description: Users, each with O(users[].name) and O(users[].shell).
    type: list
    elements: dict
    required: true
  programs:
    description: Paths by name of shell.
    type: dict
    required: true
  patience:
    description: Seconds within which a shell has to start.
    type: int
    required: true
  set:
    description: Whether the shells are set already; then a login runs what passwd(5) names.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Start each shell as its user
  login_shell_start:
    users: [{name: ada, shell: zsh}]
    programs: {zsh: /usr/bin/zsh}
    patience: 30
"""

RETURN = r"""
problems:
  description: Which shells did not start, each with code, values and text.
  type: list
  elements: dict
  returned: failure
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.login_shell_differences import PASSWD, parse_passwd
from ansible.module_utils.login_shell_login import log_in, login_problem
from ansible.module_utils.login_shell_problems import Problem, failure, problem

OPENINGS = {
    False: "login_shell: nobody's shell was changed. Mend the shell or the files in the user's "
    "home, or take another.",
    True: "login_shell: a login does not run the shell that was set.",
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "users": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "shell": {"type": "str", "required": True},
                },
            },
            "programs": {"type": "dict", "required": True},
            "patience": {"type": "int", "required": True},
            "set": {"type": "bool", "default": False},
        },
    )
    parameters = module.params
    patience, shells_are_set = parameters["patience"], parameters["set"]
    allowed = Path("/etc/shells").read_text(encoding="utf-8").splitlines()
    accounts = parse_passwd(PASSWD.read_text(encoding="utf-8", errors="replace"))

    def tried(user: dict[str, str]) -> Problem | None:
        name, shell = user["name"], parameters["programs"][user["shell"]]
        if shell not in allowed:
            return problem("shell_not_allowed", user=name, shell=shell)
        passwd_shell = accounts[name].shell if name in accounts else ""
        if shells_are_set and passwd_shell != shell:
            return problem("shell_not_set", user=name, shell=shell, passwd_shell=passwd_shell)
        login = log_in(name, None if shells_are_set else shell, patience)
        return login_problem(name, shell, login, patience)

    # One after the other: first logins set up completion, and would take each other's time.
    problems = [entry for entry in map(tried, parameters["users"]) if entry]
    if problems:
        module.fail_json(**failure(OPENINGS[shells_are_set], problems))
    module.exit_json(changed=False)


if __name__ == "__main__":
    main()
