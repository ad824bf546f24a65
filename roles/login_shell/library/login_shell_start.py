#!/usr/bin/python
"""Ansible module: start shells as their users, as a login does.

A shell that does not start is named in `unstarted`, because the user's own files may be the reason.
Where anything else is wrong, or with `set`, the module fails.
"""

import pwd
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.login_shell_login import log_in, other_program, start_problem

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

    unstarted, refused = [], []
    # One after the other: first logins set up completion, and would take each other's time.
    for user in parameters["users"]:
        name, shell = user["name"], parameters["programs"][user["shell"]]
        now = pwd.getpwnam(name).pw_shell if shells_are_set else ""
        if shell not in allowed:
            refused.append(f"{name}: {shell} is not in /etc/shells (add-shell {shell}).")
        elif shells_are_set and now != shell:
            refused.append(f"{name}: {shell} was set, and /etc/passwd has {now}.")
        else:
            login = log_in(name, None if shells_are_set else shell, patience)
            if said := start_problem(shell, login, patience):
                unstarted.append(f"{name}: {said.strip().removesuffix('.')}.")
            elif said := other_program(shell, login):
                refused.append(f"{name}: {said}.")
    said = "\n".join([OPENINGS[shells_are_set], *refused, *unstarted])
    if refused or (unstarted and shells_are_set):
        module.fail_json(msg=said)
    module.exit_json(changed=False, unstarted=said if unstarted else "")


if __name__ == "__main__":
    main()
