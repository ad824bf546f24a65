# Copyright Trainyard. Apache-2.0
"""Why the lists are refused: they contradict themselves, or the machine."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ansible.module_utils.accounts_keys import without_key
from ansible.module_utils.accounts_lists import Lists, User
from ansible.module_utils.accounts_machine import Machine
from ansible.module_utils.accounts_sudoers import rule_path, rule_user

LOGIN_NAME = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")
# The forms of crypt(5) that Debian and Ubuntu accept, whole: yescrypt and gost-yescrypt, SHA-512,
# SHA-256, bcrypt. "!" in front of one locks it.
PASSWORD_HASH = re.compile(
    r"!?([$]g?y[$][./0-9A-Za-z]+[$][./0-9A-Za-z]{0,86}[$][./0-9A-Za-z]{43}"
    r"|[$]6[$](rounds=\d+[$])?[^$:\s]{0,16}[$][./0-9A-Za-z]{86}"
    r"|[$]5[$](rounds=\d+[$])?[^$:\s]{0,16}[$][./0-9A-Za-z]{43}"
    r"|[$]2[aby][$]\d\d[$][./0-9A-Za-z]{53})"
)

TEXTS = {
    "listed_twice": "{entry} is listed more than once",
    "login_name_invalid": (
        'user {user}: not a login name. Use lower-case letters, digits, "_", "-" and ".", at '
        'most 32, beginning with a letter or "_"'
    ),
    "password_not_hashed": (
        "user {user}: password_hash is not a whole hash. `mkpasswd` of the package whois makes one"
    ),
    "key_invalid": (
        "user {user}: {line!r} of authorized_keys is not a public key. The file id_ed25519.pub of "
        "~/.ssh holds one"
    ),
    "shell_missing": (
        "user {user}: the machine has no {shell}. Leave shell out and name the user in "
        "login_shell_users, which installs it, or name one of /etc/shells"
    ),
    "user_needed": "user {user} cannot be removed: Ansible works as this user, or becomes it",
    "group_has_number": (
        "group {group} has the number {gid} already, not {listed_gid}: leave gid out to use it "
        "as it is, or choose another name"
    ),
    "gid_taken": (
        "gid {gid} of group {group} belongs to group {owner}: choose another number "
        "(trainyard_uid is that of the account that trains)"
    ),
    "user_has_number": (
        "user {user} has the number {uid} already, not {listed_uid}: leave uid out to use it as "
        "it is, or choose another name"
    ),
    "uid_taken": (
        "uid {uid} of user {user} belongs to user {owner}: choose another number (trainyard_uid "
        "is that of the account that trains)"
    ),
    "own_group_exists": (
        "user {user} would get a group of the same name, and there is one with the number {gid} "
        "already: say `group: {user}` to use it as it is, or choose another name"
    ),
    "own_gid_taken": (
        "gid {gid} of the own group of user {user} belongs to group {owner}: choose another "
        "number, or name a group"
    ),
    "group_missing": "group {group} of user {user} does not exist: list it in accounts_groups",
    "runs_held": (
        "the machine holds training runs of a user that is to go: {runs}. `make stop RUN=` ends "
        "a run and brings home what it left"
    ),
    "login_user_is_ours": (
        "Ansible works as {user}, whom this role made or gave the right to sudo. Let Ansible "
        "work as somebody else (ansible_user), such as root"
    ),
}


class Problem(NamedTuple):
    """A reason to change nothing; `values` fill the gaps in the text of the code."""

    code: str
    values: dict[str, str | int]

    @property
    def text(self) -> str:
        """The sentence for people."""
        return TEXTS[self.code].format(**self.values) + "."

    def as_result(self) -> dict[str, Any]:
        """Return the problem in the form of a task's result."""
        return {"code": self.code, "values": self.values, "text": self.text}


def problem(code: str, **values: str | int) -> Problem:
    """Make a problem of one of the codes of TEXTS."""
    return Problem(code, values)


def problems_of_presence(lists: Lists, machine: Machine, login_user: str) -> list[Problem]:
    """Return what speaks against the lists.

    Args:
        lists: groups and users of the inventory.
        machine: as it is now.
        login_user: as whom Ansible logs in.
    """
    leavers = [user.name for user in lists.absent_users]
    return [
        *_listed_twice(lists),
        *(entry for user in lists.users for entry in problems_of_entry(user)),
        *(problem("user_needed", user=name) for name in leavers if name in ("root", login_user)),
        *_group_conflicts(lists, machine),
        *_user_conflicts(lists, machine),
        *_held_runs(leavers, machine),
    ]


def problems_of_entry(user: User) -> Iterator[Problem]:
    """Yield what is wrong with an entry on any machine."""
    if not LOGIN_NAME.fullmatch(user.name):
        yield problem("login_name_invalid", user=user.name)
    if user.password_hash is not None and not PASSWORD_HASH.fullmatch(user.password_hash):
        yield problem("password_not_hashed", user=user.name)
    for line in without_key(user.authorized_keys):
        yield problem("key_invalid", user=user.name, line=line)


def problems_of_absence(machine: Machine, login_user: str) -> list[Problem]:
    """Return what speaks against removing all that the role made."""
    ours = login_user in machine.made_users or any(
        path == rule_path(login_user) or rule_user(rule.text) == login_user
        for path, rule in machine.rules.items()
    )
    return [
        *([problem("login_user_is_ours", user=login_user)] if ours else []),
        *_held_runs(machine.made_users, machine),
    ]


def _listed_twice(lists: Lists) -> Iterator[Problem]:
    entries = [
        *(f"user {user.name}" for user in lists.users),
        *(f"uid {user.uid}" for user in lists.users if user.uid is not None),
        *(f"group {group.name}" for group in lists.groups),
        *(f"gid {group.gid}" for group in lists.groups if group.gid is not None),
    ]
    for entry, count in Counter(entries).items():
        if count > 1:
            yield problem("listed_twice", entry=entry)


def _group_conflicts(lists: Lists, machine: Machine) -> Iterator[Problem]:
    owners = {group.gid: name for name, group in machine.groups.items()}
    for group in lists.present_groups:
        if group.gid is None:
            continue
        unix_group = machine.groups.get(group.name)
        if unix_group and unix_group.gid != group.gid and group.name not in machine.made_groups:
            yield problem(
                "group_has_number",
                group=group.name,
                gid=unix_group.gid,
                listed_gid=group.gid,
            )
        elif owners.get(group.gid, group.name) != group.name:
            yield problem("gid_taken", gid=group.gid, group=group.name, owner=owners[group.gid])


def _user_conflicts(lists: Lists, machine: Machine) -> Iterator[Problem]:
    owners = {account.uid: name for name, account in machine.users.items()}
    existing = {
        *machine.groups,
        *(group.name for group in (*lists.present_groups, *lists.own_groups)),
    }
    own_groups = {group.name for group in lists.own_groups}
    for user in lists.present_users:
        if user.shell in machine.missing_shells:
            yield problem("shell_missing", user=user.name, shell=str(user.shell))
        account = machine.users.get(user.name)
        if user.uid is not None:
            if account and account.uid != user.uid and user.name not in machine.made_users:
                yield problem(
                    "user_has_number", user=user.name, uid=account.uid, listed_uid=user.uid
                )
            elif owners.get(user.uid, user.name) != user.name:
                yield problem("uid_taken", uid=user.uid, user=user.name, owner=owners[user.uid])
        if user.name in own_groups:
            yield from _own_group_conflicts(user, machine)
        primary = [user.group] if user.group is not None else []
        for group in (*primary, *user.groups):
            if group not in existing:
                yield problem("group_missing", group=group, user=user.name)


def _own_group_conflicts(user: User, machine: Machine) -> Iterator[Problem]:
    owners = {group.gid: name for name, group in machine.groups.items()}
    account, unix_group = machine.users.get(user.name), machine.groups.get(user.name)
    if unix_group:
        number = user.uid if user.uid is not None else account and account.gid
        if unix_group.gid != number and user.name not in machine.made_groups:
            yield problem("own_group_exists", user=user.name, gid=unix_group.gid)
    elif user.uid in owners:
        yield problem("own_gid_taken", gid=user.uid, user=user.name, owner=owners[user.uid])


def _held_runs(leavers: Iterable[str], machine: Machine) -> Iterator[Problem]:
    uids = {machine.users[name].uid for name in leavers if name in machine.users}
    names = [run.name for run in machine.runs if run.uid in uids]
    if names:
        yield problem("runs_held", runs=", ".join(names))
