"""Users, groups, keys and rights of a machine, read once."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .accounts_keys import Home, KeysError, read_keys
from .accounts_lists import Lists

# Of pwd or grp: name and number are its first and third field
Entry = Any
PASSWD, SHADOW = Path("/etc/passwd"), Path("/etc/shadow")
# Of the files in which the role gives the right to sudo
PREFIX = "/etc/sudoers.d/accounts-"


@dataclass(frozen=True)
class Account:
    """An entry of passwd(5), with what else belongs to the user.

    Attributes:
        password: the field of shadow(5); empty where there is none.
        authorized_keys: lines of the file of that name, without comments; None where something
            else is in its place.
        local: whether /etc/passwd has it, and not a directory service.
    """

    uid: int
    gid: int
    comment: str = ""
    home: str = "/"
    shell: str = "/bin/sh"
    password: str = ""
    authorized_keys: frozenset[str] | None = frozenset()
    local: bool = True


@dataclass(frozen=True)
class UnixGroup:
    """An entry of group(5)."""

    gid: int
    members: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Rule:
    """A file of sudoers(5) that the role wrote; `access` is owner, group and permission bits."""

    text: str
    access: tuple[int, int, int]


@dataclass(frozen=True)
class Run:
    """A training run that lies on the machine, and whose it is."""

    name: str
    uid: int


@dataclass(frozen=True)
class Machine:
    """What the role reads of a machine.

    Attributes:
        homes: those of the listed users that exist.
        missing_shells: those of the listed users that cannot be executed.
        rules: by path.
        made_users: users that the role made.
        made_groups: groups that the role made.
    """

    users: dict[str, Account] = field(default_factory=dict)
    groups: dict[str, UnixGroup] = field(default_factory=dict)
    homes: frozenset[str] = frozenset()
    missing_shells: frozenset[str] = frozenset()
    rules: dict[str, Rule] = field(default_factory=dict)
    sudo: bool = True
    made_users: frozenset[str] = frozenset()
    made_groups: frozenset[str] = frozenset()
    runs: tuple[Run, ...] = ()


def read_machine(lists: Lists, record: Path, run_directory: str) -> Machine:
    """Read what the plan needs.

    Args:
        record: what the role made, as tasks/record.yml writes it.
        run_directory: of training runs; empty where there are none.

    Raises:
        OSError: a file that exists cannot be read.
    """
    passwords = shadow_passwords(_text(SHADOW))
    entries = with_asked(
        {entry.pw_name: entry for entry in pwd.getpwall()},
        (pwd.getpwnam, pwd.getpwuid),
        [user.name for user in lists.users],
        [user.uid for user in lists.users],
    )
    groups_of_users = [*lists.present_groups, *lists.absent_groups, *lists.own_groups]
    groups = {
        name: UnixGroup(group.gr_gid, frozenset(group.gr_mem))
        for name, group in with_asked(
            {entry.gr_name: entry for entry in grp.getgrall()},
            (grp.getgrnam, grp.getgrgid),
            [group.name for group in groups_of_users]
            + [name for user in lists.present_users for name in (user.group, *user.groups) if name],
            [group.gid for group in groups_of_users] + [entry.pw_gid for entry in entries.values()],
        ).items()
    }
    local = {line.partition(":")[0] for line in _text(PASSWD).splitlines()}
    listed = {user.name: user for user in lists.present_users}
    users: dict[str, Account] = {}
    homes = set()
    for name, entry in entries.items():
        keys: frozenset[str] | None = frozenset()
        if user := listed.get(name):
            home = user.home or entry.pw_dir
            if Path(home).exists():
                homes.add(home)
            if user.authorized_keys or user.authorized_keys_exclusive:
                keys = authorized_keys(Home(name, entry.pw_uid, entry.pw_gid, entry.pw_dir))
        users[name] = Account(
            uid=entry.pw_uid,
            gid=entry.pw_gid,
            comment=entry.pw_gecos,
            home=entry.pw_dir,
            shell=entry.pw_shell,
            password=passwords.get(name, ""),
            authorized_keys=keys,
            local=name in local,
        )
    recorded = frozenset(_text(record).splitlines())
    return Machine(
        users=users,
        groups=groups,
        homes=frozenset(homes),
        missing_shells=frozenset(
            user.shell
            for user in lists.present_users
            if user.shell and not os.access(user.shell, os.X_OK)
        ),
        rules=read_rules(PREFIX),
        sudo=shutil.which("visudo", path="/usr/sbin:/usr/bin:/sbin:/bin") is not None,
        # One that has another number by now was made by somebody else.
        made_users=frozenset(
            name for name, user in users.items() if f"user {name} {user.uid}" in recorded
        ),
        made_groups=frozenset(
            name for name, group in groups.items() if f"group {name} {group.gid}" in recorded
        ),
        runs=read_runs(run_directory),
    )


def with_asked(
    entries: dict[str, Entry],
    ask: tuple[Callable[[str], Entry], Callable[[int], Entry]],
    names: Iterable[str],
    numbers: Iterable[int | None],
) -> dict[str, Entry]:
    """Return entries by name, with those of these names and numbers.

    A directory service (LDAP by SSSD, say) need not list its entries. It tells of one that it is
    asked for.
    """
    found = dict(entries)
    for name in {*names} - found.keys():
        with suppress(KeyError):
            found[name] = ask[0](name)
    known = {entry[2] for entry in found.values()}
    for number in {number for number in numbers if number is not None} - known:
        with suppress(KeyError):
            entry = ask[1](number)
            found[entry[0]] = entry
    return found


def read_rules(prefix: str) -> dict[str, Rule]:
    """Return the rules that the role wrote, by path; their paths begin with the prefix."""
    rules = {}
    for path in sorted(Path(prefix).parent.glob(f"{Path(prefix).name}*")):
        status = path.stat()
        access = (status.st_uid, status.st_gid, status.st_mode & 0o7777)
        rules[str(path)] = Rule(_text(path), access)
    return rules


def rule_path(user: str) -> str:
    """Return the path of a user's rule.

    sudo ignores a file with a dot in its name. A plus sign stands for the dot, because no login
    name contains one: so two users never share a file.
    """
    return PREFIX + user.replace(".", "+")


def read_runs(directory: str) -> tuple[Run, ...]:
    """Return the training runs in a directory, each a directory of its own."""
    if not directory or not Path(directory).is_dir():
        return ()
    return tuple(
        Run(path.name, path.stat().st_uid)
        for path in sorted(Path(directory).iterdir())
        if path.is_dir() and not path.is_symlink()
    )


def shadow_passwords(text: str) -> dict[str, str]:
    """Return the second field of each line of shadow(5), by user."""
    return {line.split(":")[0]: line.split(":")[1] for line in text.splitlines() if ":" in line}


def key_lines(text: str) -> frozenset[str]:
    """Return the lines of authorized_keys(5) that hold a key."""
    # Not splitlines(): sshd knows no other end of a line.
    lines = (line.strip() for line in text.split("\n"))
    return frozenset(line for line in lines if line and not line.startswith("#"))


def authorized_keys(home: Home) -> frozenset[str] | None:
    """Return the lines of a user's authorized_keys; None where something else is in its place.

    Who writes it says what that is: nobody's home keeps the others from what they are to get.
    """
    try:
        return key_lines(read_keys(home))
    except KeysError:
        return None


def _text(path: Path) -> str:
    """Return the text of a file, the empty string where there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""
