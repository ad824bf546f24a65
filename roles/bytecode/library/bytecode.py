#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: makes the folder in which a machine keeps the byte code of Ansible's modules.

Puts the file sitecustomize.py there, which Python imports by itself where the folder is in
PYTHONPATH, and which keeps byte code beside itself. A folder that belongs to another account, or
in which others may write, is made anew, for what is in it is executed. `absent` also removes the
folder above if it is empty.
"""

from __future__ import annotations

import inspect
import os
import shutil
import stat
import sys
from contextlib import suppress
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.bytecode_hook import keep

# The name under which Python imports it by itself
HOOK = "sitecustomize.py"


def is_own(folder: Path) -> bool:
    """Return whether this account alone may write in a folder."""
    try:
        about = folder.lstat()
    except FileNotFoundError:
        return False
    return (
        stat.S_ISDIR(about.st_mode)
        and about.st_uid == os.geteuid()
        and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def is_there(folder: Path, hook: str) -> bool:
    """Return whether a folder has the hook, and is as it is to be."""
    if not is_own(folder) or stat.S_IMODE(folder.stat().st_mode) != 0o755:
        return False
    try:
        return (folder / HOOK).read_text(encoding="utf-8") == hook
    except (FileNotFoundError, UnicodeDecodeError):
        return False


def remove(folder: Path) -> None:
    """Remove what is in the place of the folder; of a link, the link alone."""
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink(missing_ok=True)
    else:
        shutil.rmtree(folder)


def make(folder: Path, hook: str) -> None:
    """Make the folder and put the hook there."""
    if not is_own(folder):
        remove(folder)
        folder.mkdir(mode=0o755, parents=True)
    folder.chmod(0o755)  # whatever the umask is
    new = folder / f"{HOOK}.new"
    new.write_text(hook, encoding="utf-8")
    new.chmod(0o644)
    new.replace(folder / HOOK)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
        },
        supports_check_mode=True,
    )
    folder = Path(module.params["directory"])
    hook = inspect.getsource(sys.modules[keep.__module__])
    wanted = module.params["state"] == "present"
    try:
        changed = not is_there(folder, hook) if wanted else os.path.lexists(folder)
        if changed and not module.check_mode:
            if wanted:
                make(folder, hook)
            else:
                remove(folder)
                with suppress(OSError):  # something else is in it
                    folder.parent.rmdir()
    except OSError as error:  # a full disk, say
        module.fail_json(msg=f"bytecode: {folder} cannot be changed: {error}")
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
