"""The groups and users that the inventory lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Group(NamedTuple):
    """An entry of accounts_groups; `gid` is None where the machine chooses the number."""

    name: str
    gid: int | None = None
    state: str = "present"


class User(NamedTuple):
    """An entry of accounts_users. None: the inventory does not say.

    Attributes:
        group: the primary group; None stands for a group of the user's own name.
        groups_exclusive: whether memberships beside `groups` end.
        sudo: none, password or passwordless.
        password_hash: in a form of crypt(5).
    """

    name: str
    uid: int | None = None
    group: str | None = None
    groups: Sequence[str] = ()
    groups_exclusive: bool = False
    comment: str | None = None
    home: str | None = None
    shell: str | None = None
    authorized_keys: Sequence[str] = ()
    authorized_keys_exclusive: bool = False
    sudo: str = "none"
    password_hash: str | None = None
    state: str = "present"
    remove_home: bool = False


class Lists:
    """What the inventory lists, by what is to become of it."""

    def __init__(self, groups: list[Group], users: list[User]) -> None:
        self.groups = groups
        self.users = users
        self.present_groups = [group for group in groups if group.state == "present"]
        self.absent_groups = [group for group in groups if group.state == "absent"]
        self.present_users = [user for user in users if user.state == "present"]
        self.absent_users = [user for user in users if user.state == "absent"]
        self.sudo_users = [user for user in self.present_users if user.sudo != "none"]
        listed = {group.name for group in groups}
        # Users whose entry names no primary group get one of their own name and number.
        self.own_groups = [
            Group(user.name, user.uid)
            for user in self.present_users
            if user.group is None and user.name not in listed
        ]


def user_of(entry: dict[str, Any]) -> User:
    """Make a user of an entry of accounts_users, whose types Ansible has checked."""
    sequences = {name: tuple(entry.get(name) or ()) for name in ("groups", "authorized_keys")}
    return User(**{**entry, **sequences})
