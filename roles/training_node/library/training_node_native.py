#!/usr/bin/python
"""Ansible module: makes a node ready for runs without root and without an engine.

Makes the directories (outer ones first) and that of the data sets, if there is none, for nobody
else. C(lacking) tells what only the administrator can mend, a sentence each; nothing was made then.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node.engine.containers import EngineError, require_engine

# Program to the package of Debian and Ubuntu that has it.
PROGRAMS = {
    "unshare": "util-linux",
    "mount": "mount",
    "rsync": "rsync",
    "ssh-keygen": "openssh-client",
}
PYTHON = (3, 9)
MACHINE_ID = "/etc/machine-id"


def lacking() -> list[str]:
    """Return what is missing on this machine, a sentence each."""
    if os.geteuid() == 0:
        # In its namespaces such an account would still own what the kernel gives to root.
        return [
            "who logs in is root, and RUNTIME=native is for an ordinary account (ansible_user, "
            "without ansible_become)"
        ]
    said = [
        f"there is no {program}: install the package {package}"
        for program, package in PROGRAMS.items()
        if shutil.which(program) is None
    ]
    if sys.version_info < PYTHON:
        said.append(f"Python {'.'.join(map(str, PYTHON))} or newer is needed")
    if not said:
        try:
            require_engine()
        except EngineError as error:
            said.append(str(error))
    return said


def strangers(directories: list[str]) -> list[str]:
    """Return which of these directories somebody else could have put there, a sentence each."""
    said = []
    for directory in directories:
        if not os.path.lexists(directory):
            continue
        about = os.lstat(directory)
        if not stat.S_ISDIR(about.st_mode):
            said.append(f"{directory} is not a directory: move it away")
        elif about.st_uid != os.geteuid() or about.st_mode & 0o022:
            said.append(
                f"{directory} belongs to another account, or others may write in it: move it away"
            )
    return said


def unfit(directory: str) -> list[str]:
    """Return why nothing can be run from a folder of the account, a sentence each."""
    said = []
    if os.statvfs(directory).f_flag & os.ST_NOEXEC:
        said.append(f"{directory} is on a file system without programs (noexec)")
    machine = os.path.join(directory, "machine")
    with open(MACHINE_ID, encoding="ascii") as file:
        own = file.read()
    try:
        with open(machine, encoding="ascii") as file:
            noted = file.read()
    except FileNotFoundError:
        with open(machine, "w", encoding="ascii") as file:
            file.write(own)
    else:
        if noted != own:
            said.append(
                f"{directory} is another machine's of the same name: set trainyard_native_root"
            )
    return said


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directories": {"type": "list", "elements": "path", "required": True},
            "data": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    directories: list[str] = module.params["directories"]
    root = directories[0]
    outer = [] if os.path.isabs(root) else [os.path.dirname(root)]
    said = lacking() or strangers([*outer, *directories])
    wanted = [*directories, module.params["data"]]
    missing = [directory for directory in wanted if not os.path.isdir(directory)]
    if not said and not module.check_mode:
        # For nobody else, outer ones included.
        os.umask(0o077)
        try:
            for directory in missing:
                os.makedirs(directory)
            said = unfit(root)
        except OSError as error:
            said = [f"{error.filename}: {error.strerror}"]
    module.exit_json(changed=bool(missing) and not said, lacking=said)


if __name__ == "__main__":
    main()
