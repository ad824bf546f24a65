"""What the role has to do, so that the machine becomes what the lists say.

An entry is left out where the module that would do the work would change nothing.
"""

from __future__ import annotations

from typing import Any

from .accounts_lists import Group, Lists, User
from .accounts_machine import Account, Machine, key_lines, rule_path

# root owns a rule, and nobody else reads it.
RULE_ACCESS = (0, 0, 0o440)
# Numbers below are those of the system's own users and groups: adduser.conf(5), FIRST_UID.
FIRST_UID = 1000


def differences_of_presence(lists: Lists, machine: Machine, dry_run: bool) -> dict[str, Any]:
    """Return what is to be done for state present.

    Args:
        dry_run: whether later tasks will lack what earlier ones were to create. What they cannot
            do without it is left out.
    """
    groups = [*lists.present_groups, *lists.own_groups]
    return {
        "groups": [
            _without_none(group._asdict(), "state") for group in groups if _differs(group, machine)
        ],
        "new_groups": sorted({group.name for group in groups} - machine.groups.keys()),
        "users": [
            _user_parameters(user, machine, dry_run)
            for user in lists.present_users
            if _user_differs(user, machine)
        ],
        "new_users": sorted({user.name for user in lists.present_users} - machine.users.keys()),
        "missing_homes": [user.name for user in lists.present_users if _lost_home(user, machine)],
        "passwords": [user.name for user in lists.present_users if password_differs(user, machine)],
        "authorized_keys": [
            {
                "user": user.name,
                "lines": listed_keys(user),
                "exclusive": user.authorized_keys_exclusive,
            }
            for user in lists.present_users
            if _keys_differ(user, machine) and (user.name in machine.users or not dry_run)
        ],
        "sudo_users": [user.name for user in lists.sudo_users],
        "sudo_missing": bool(lists.sudo_users) and not machine.sudo,
        "rules": _rules(lists, machine) if machine.sudo or not dry_run else [],
        "stale_rules": _stale_rules(lists, machine),
        "leavers": [
            _leaver(user.name, user.remove_home, machine)
            for user in lists.absent_users
            if user.name in machine.users
        ],
        "absent_groups": [
            group.name for group in lists.absent_groups if group.name in machine.groups
        ],
    }


def differences_of_absence(lists: Lists, machine: Machine) -> dict[str, Any]:
    """Return what is to be done for state absent: all that the role made goes."""
    remove_home = {user.name: user.remove_home for user in lists.users}
    stay = machine.users.keys() - machine.made_users
    primary = {machine.users[name].gid for name in stay}
    return {
        "stale_rules": list(machine.rules),
        "leavers": [
            _leaver(name, remove_home.get(name, False), machine)
            for name in sorted(machine.made_users)
        ],
        # Not the primary group of somebody whom the role did not make.
        "absent_groups": [
            name for name in sorted(machine.made_groups) if machine.groups[name].gid not in primary
        ],
    }


def _without_none(values: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the values that are not None, without those of the given names."""
    return {
        name: value for name, value in values.items() if value is not None and name not in names
    }


def _differs(group: Group, machine: Machine) -> bool:
    unix_group = machine.groups.get(group.name)
    return unix_group is None or (group.gid is not None and group.gid != unix_group.gid)


def _user_differs(user: User, machine: Machine) -> bool:
    account = machine.users.get(user.name)
    return (
        account is None
        or bool(entry_differences(user, account, machine))
        or _lost_home(user, machine)
    )


def entry_differences(user: User, account: Account, machine: Machine) -> list[str]:
    """Return which values of the list the machine's entry of a user does not have."""
    primary = machine.groups.get(user.group or user.name)
    wanted = {
        "uid": (user.uid, account.uid),
        "group": (primary.gid if primary else -1, account.gid),
        "comment": (user.comment, account.comment),
        "home": (user.home, account.home),
        "shell": (user.shell, account.shell),
    }
    differing = [name for name, (value, now) in wanted.items() if value not in (None, now)]
    return differing + (["groups"] if _memberships_differ(user, machine) else [])


def _lost_home(user: User, machine: Machine) -> bool:
    """Tell whether a user who is there, and may have processes, lacks the home."""
    account = machine.users.get(user.name)
    return account is not None and (user.home or account.home) not in machine.homes


def _memberships_differ(user: User, machine: Machine) -> bool:
    memberships = {name for name, group in machine.groups.items() if user.name in group.members}
    if user.groups_exclusive:
        return memberships != set(user.groups)
    return not memberships.issuperset(user.groups)


def _user_parameters(user: User, machine: Machine, dry_run: bool) -> dict[str, Any]:
    """Return parameters of ansible.builtin.user."""
    groups = [name for name in user.groups if name in machine.groups or not dry_run]
    # A user that exists keeps its shell.
    shell = None if user.name in machine.users else "/bin/bash"
    parameters = {
        "name": user.name,
        "uid": user.uid,
        "group": user.group or user.name,
        "groups": groups,
        "append": not user.groups_exclusive,
        "create_home": user.name not in machine.users,
        "comment": user.comment,
        "home": user.home,
        "shell": user.shell or shell,
    }
    return _without_none(parameters)


def password_differs(user: User, machine: Machine) -> bool:
    if user.password_hash is None:
        return False
    account = machine.users.get(user.name)
    # "!" locks a password and leaves it as it is: usermod(8).
    return account is None or account.password.lstrip("!") != user.password_hash.lstrip("!")


def listed_keys(user: User) -> list[str]:
    """Return the lines that a user is to have; an entry may hold several, as a file does."""
    lines = "\n".join(user.authorized_keys).splitlines()
    return [line.strip() for line in lines if key_lines(line)]


def _keys_differ(user: User, machine: Machine) -> bool:
    keys = frozenset(listed_keys(user))
    account = machine.users.get(user.name)
    lines = account.authorized_keys if account else frozenset()
    if lines is None:
        return bool(keys) or user.authorized_keys_exclusive
    return lines != keys if user.authorized_keys_exclusive else not lines.issuperset(keys)


def _rules(lists: Lists, machine: Machine) -> list[dict[str, str]]:
    """Return the rules that are missing or differ."""
    rules = []
    for user in lists.sudo_users:
        password = "NOPASSWD: " if user.sudo == "passwordless" else ""
        path, text = rule_path(user.name), f"{user.name} ALL=(ALL:ALL) {password}ALL\n"
        rule = machine.rules.get(path)
        if rule is None or rule.text != text or rule.access != RULE_ACCESS:
            rules.append({"path": path, "content": text})
    return rules


def _stale_rules(lists: Lists, machine: Machine) -> list[str]:
    """Return the paths of rules that give listed users a right that they are not to have.

    The rules of users that are not listed stay.
    """
    kept = {rule_path(user.name) for user in lists.sudo_users}
    paths = {rule_path(user.name) for user in lists.users}
    return sorted(paths & machine.rules.keys() - kept)


def _leaver(name: str, remove_home: bool, machine: Machine) -> dict[str, Any]:
    account = machine.users[name]
    return {
        "name": name,
        "uid": account.uid,
        "remove_home": remove_home,
        "group_stays": _group_stays(name, account, machine),
    }


def _group_stays(name: str, account: Account, machine: Machine) -> bool:
    """Tell whether the group of a leaver's name has to be kept from userdel(8).

    userdel deletes a primary group of the same name, unless it has members. It goes where the role
    made it. Of a user that the role did not make it goes too, unless it is one of the system's
    groups, which have numbers of their own. All others were there before, and stay.
    """
    group = machine.groups.get(name)
    if group is None or group.gid != account.gid or name in machine.made_groups:
        return False
    # root is the member that keeps it, and stays one where it was one before.
    return (name in machine.made_users or account.gid < FIRST_UID) and "root" not in group.members
