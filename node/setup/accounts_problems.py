"""Why the lists are refused: they contradict themselves, or the machine."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from .accounts_differences import entry_differences, password_differs
from .accounts_keys import without_key
from .accounts_lists import Group, Lists, User
from .accounts_machine import Machine, rule_path

LOGIN_NAME = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")
# Other packages' may have capital letters, as Debian-exim.
GROUP_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
# The forms of crypt(5) that Debian and Ubuntu accept, whole: yescrypt and gost-yescrypt, SHA-512,
# SHA-256, bcrypt. "!" in front of one locks it.
PASSWORD_HASH = re.compile(
    r"!?([$]g?y[$][./0-9A-Za-z]+[$][./0-9A-Za-z]{0,86}[$][./0-9A-Za-z]{43}"
    r"|[$]6[$](rounds=\d+[$])?[^$:\s]{0,16}[$][./0-9A-Za-z]{86}"
    r"|[$]5[$](rounds=\d+[$])?[^$:\s]{0,16}[$][./0-9A-Za-z]{43}"
    r"|[$]2[aby][$]\d\d[$][./0-9A-Za-z]{53})"
)

USE_AS_IT_IS = "to use it as it is, or choose another name"
ANOTHER_NUMBER = "choose another number (trainyard_uid is that of the account that trains)"


def problems_of_presence(lists: Lists, machine: Machine, login_user: str) -> list[str]:
    """Return what speaks against the lists, a sentence each."""
    leavers = [user.name for user in lists.absent_users]
    return [
        *_listed_twice(lists),
        *(said for user in lists.users for said in problems_of_entry(user)),
        *(said for group in lists.groups for said in problems_of_entry(group)),
        *(
            f"user {name} cannot be removed: Ansible works as this user, or becomes it."
            for name in leavers
            if name in ("root", login_user)
        ),
        *_group_conflicts(lists, machine),
        *_user_conflicts(lists, machine),
        *_directory_conflicts(lists, machine),
        *_shared_numbers(leavers, machine),
        *_held_runs(leavers, machine),
    ]


def problems_of_entry(entry: User | Group) -> Iterator[str]:
    """Yield what is wrong with an entry on any machine."""
    names = [entry.name]
    if isinstance(entry, User):
        yield from _problems_of_user(entry)
        names = [name for name in (entry.group, *entry.groups) if name is not None]
    for name in names:
        if not GROUP_NAME.fullmatch(name):
            yield f"{name!r} of {entry.name} is not the name of a group. Use letters and digits."


def _problems_of_user(user: User) -> Iterator[str]:
    if not LOGIN_NAME.fullmatch(user.name):
        yield (
            f'user {user.name}: not a login name. Use lower-case letters, digits, "_", "-" and '
            '".", at most 32, beginning with a letter or "_".'
        )
    for key in ("home", "shell"):
        path = getattr(user, key)
        # Fields of /etc/passwd end at a colon.
        if path is not None and not re.fullmatch(r"/[^:\s]*[^:/\s]/?", path):
            yield f"user {user.name}: {key} {path!r} is not a path from / on. Write it so, whole."
    if re.search(r"[:\n]", user.comment or ""):
        yield f"user {user.name}: a comment has no colon and one line. /etc/passwd ends it there."
    if user.password_hash is not None and not PASSWORD_HASH.fullmatch(user.password_hash):
        yield (
            f"user {user.name}: password_hash is not a whole hash. `mkpasswd` of the package whois "
            "makes one."
        )
    for line in without_key(user.authorized_keys):
        yield (
            f"user {user.name}: {line!r} of authorized_keys is not a public key. The file "
            "id_ed25519.pub of ~/.ssh holds one."
        )


def problems_of_absence(machine: Machine, login_user: str) -> list[str]:
    """Return what speaks against removing all that the role made."""
    ours = login_user in machine.made_users or rule_path(login_user) in machine.rules
    said = (
        f"Ansible works as {login_user}, whom this role made or gave the right to sudo. Let "
        "Ansible work as somebody else (ansible_user), such as root."
    )
    leavers = sorted(machine.made_users)
    return [
        *([said] if ours else []),
        *_shared_numbers(leavers, machine),
        *_held_runs(leavers, machine),
    ]


def _listed_twice(lists: Lists) -> Iterator[str]:
    entries = [
        *(f"user {user.name}" for user in lists.users),
        *(f"uid {user.uid}" for user in lists.users if user.uid is not None),
        *(f"group {group.name}" for group in lists.groups),
        *(f"gid {group.gid}" for group in lists.groups if group.gid is not None),
    ]
    for entry, count in Counter(entries).items():
        if count > 1:
            yield f"{entry} is listed more than once."


def _group_conflicts(lists: Lists, machine: Machine) -> Iterator[str]:
    owners = {group.gid: name for name, group in machine.groups.items()}
    for group in lists.present_groups:
        name, gid = group.name, group.gid
        there = machine.groups.get(name)
        if gid is None:
            continue
        if there and there.gid != gid and name not in machine.made_groups:
            yield (
                f"group {name} has the number {there.gid} already, not {gid}: leave gid out "
                f"{USE_AS_IT_IS}."
            )
        elif owners.get(gid, name) != name:
            yield f"gid {gid} of group {name} belongs to group {owners[gid]}: {ANOTHER_NUMBER}."


def _user_conflicts(lists: Lists, machine: Machine) -> Iterator[str]:
    owners = {account.uid: name for name, account in machine.users.items()}
    existing = {
        *machine.groups,
        *(group.name for group in (*lists.present_groups, *lists.own_groups)),
    }
    own_groups = {group.name for group in lists.own_groups}
    for user in lists.present_users:
        name, uid = user.name, user.uid
        if user.shell in machine.missing_shells:
            yield (
                f"user {name}: the machine has no {user.shell}. Leave shell out and name the user "
                "in login_shell_users, which installs it, or name one of /etc/shells."
            )
        account = machine.users.get(name)
        if uid is not None:
            if account and account.uid != uid and name not in machine.made_users:
                yield (
                    f"user {name} has the number {account.uid} already, not {uid}: leave uid out "
                    f"{USE_AS_IT_IS}."
                )
            elif owners.get(uid, name) != name:
                yield f"uid {uid} of user {name} belongs to user {owners[uid]}: {ANOTHER_NUMBER}."
        if name in own_groups:
            yield from _own_group_conflicts(user, machine)
        primary = [user.group] if user.group is not None else []
        for group in (*primary, *user.groups):
            if group not in existing:
                yield f"group {group} of user {name} does not exist: list it in accounts_groups."


def _own_group_conflicts(user: User, machine: Machine) -> Iterator[str]:
    owners = {group.gid: name for name, group in machine.groups.items()}
    account, there = machine.users.get(user.name), machine.groups.get(user.name)
    if there:
        number = user.uid if user.uid is not None else account and account.gid
        if there.gid != number and user.name not in machine.made_groups:
            yield (
                f"user {user.name} would get a group of the same name, and there is one with the "
                f"number {there.gid} already: say `group: {user.name}` {USE_AS_IT_IS}."
            )
    elif user.uid in owners:
        yield (
            f"gid {user.uid} of the own group of user {user.name} belongs to group "
            f"{owners[user.uid]}: {ANOTHER_NUMBER}, or name a group."
        )


def _directory_conflicts(lists: Lists, machine: Machine) -> Iterator[str]:
    """Yield what usermod(8) and userdel(8) do not change: entries that /etc/passwd lacks."""
    for user in lists.users:
        account = machine.users.get(user.name)
        if account is None or account.local:
            continue
        differing = ["state"]
        if user.state == "present":
            differing = entry_differences(user, account, machine)
            differing += ["password_hash"] if password_differs(user, machine) else []
        if differing:
            yield (
                f"user {user.name} comes from a directory service (LDAP, say), where alone its "
                f"{', '.join(differing)} can be changed: list what `id {user.name}` and `getent "
                f"passwd {user.name}` tell, or leave it out."
            )


def _shared_numbers(leavers: Sequence[str], machine: Machine) -> Iterator[str]:
    """Yield whose processes, which are known by their number, would end with those of a leaver."""
    for name in leavers:
        uid = machine.users[name].uid if name in machine.users else None
        others = [
            other
            for other, account in machine.users.items()
            if account.uid == uid and other not in leavers
        ]
        if others:
            yield (
                f"user {name} cannot be removed: {uid} is also the number of {', '.join(others)}, "
                f"whose processes would be ended. `usermod -u` there gives {name} another one."
            )


def _held_runs(leavers: Iterable[str], machine: Machine) -> Iterator[str]:
    uids = {machine.users[name].uid for name in leavers if name in machine.users}
    names = [run.name for run in machine.runs if run.uid in uids]
    if names:
        yield (
            f"the machine holds training runs of a user that is to be removed: {', '.join(names)}. "
            "`make stop RUN=` ends a run and collects its files."
        )
