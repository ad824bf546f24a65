"""Groups and users of a machine, compared with the lists of the inventory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..failure import VerbError
from .accounts_differences import differences_of_absence, differences_of_presence
from .accounts_lists import Group, Lists, User
from .accounts_machine import read_machine
from .accounts_problems import problems_of_absence, problems_of_presence

# Accompany other differences.
NOTES = ("sudo_users", "new_groups", "new_users")


class Accounts(NamedTuple):
    """What the inventory lists.

    Attributes:
        login_user: whom Ansible logs in as, where it did not come by sudo.
        run_directory: of training runs; empty where there are none.
        record: file with what the role made.
        dry: whether the roles before this one only looked, too.
    """

    login_user: str
    record: str
    groups: Sequence[Group] = ()
    users: Sequence[User] = ()
    run_directory: str = ""
    state: str = "present"
    dry: bool = False


def look_at_accounts(accounts: Accounts) -> dict[str, Any]:
    """Return what is to be done.

    Raises:
        VerbError: `failed`: the lists contradict the machine, or it cannot be read.
    """
    lists = Lists(list(accounts.groups), list(accounts.users))
    try:
        machine = read_machine(lists, Path(accounts.record), accounts.run_directory)
    except OSError as error:
        raise VerbError("failed", message=f"accounts: nothing was changed: {error}") from error
    login_user = os.environ.get("SUDO_USER") or accounts.login_user
    if accounts.state == "absent":
        problems = problems_of_absence(machine, login_user)
        differences = differences_of_absence(lists, machine)
    else:
        problems = problems_of_presence(lists, machine, login_user)
        differences = {} if problems else differences_of_presence(lists, machine, accounts.dry)
    if problems:
        raise VerbError("failed", message="\n".join(["accounts: nothing was changed.", *problems]))
    return {
        "differs": any(value for name, value in differences.items() if name not in NOTES),
        "made_users": sorted(machine.made_users),
        "made_groups": sorted(machine.made_groups),
        **differences,
    }
