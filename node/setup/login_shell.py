"""Login shells of a machine, compared with those of the inventory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..failure import VerbError

PASSWD = Path("/etc/passwd")
# What a shell reads without quotes.
PLAIN_DIRECTORY = re.compile(r"/[A-Za-z0-9._+/-]+")
# root owns a file of the site, and all read it.
SITE_ACCESS = (0, 0, 0o644)
# For a user whose former shell is gone: Debian and Ubuntu always have it.
LAST_RESORT = "/bin/bash"


class Account(NamedTuple):
    """An entry of passwd(5)."""

    uid: int
    shell: str


class Change(NamedTuple):
    """A line of the record: a user's shell before the role, and the one that the role set."""

    before: str
    after: str


class File(NamedTuple):
    """A file on the machine; `access` is owner, group and permission bits."""

    text: str
    access: tuple[int, int, int]


class SiteFile(NamedTuple):
    """What the site gives all users of a shell: a file, or a block between marks in one.

    Attributes:
        marker: of the block's first and last line, where `{mark}` is BEGIN or END; empty for a
            whole file.
    """

    shell: str
    path: str
    content: str
    marker: str = ""

    def in_place(self, file: File | None) -> bool:
        """Tell whether the file holds this content."""
        if file is None:
            return False
        if not self.marker:
            return file.text == self.content and file.access == SITE_ACCESS
        begin, end = (self.marker.replace("{mark}", mark) for mark in ("BEGIN", "END"))
        return f"{begin}\n{self.content.rstrip()}\n{end}\n" in file.text

    def left(self, file: File | None) -> bool:
        """Tell whether the file holds anything to take away."""
        return file is not None and self.marker.replace("{mark}", "BEGIN") in file.text


class ShellUser(NamedTuple):
    """A user whose login shell is set, and the shell's name."""

    name: str
    shell: str


class LoginShells(NamedTuple):
    """What the inventory says.

    Attributes:
        programs: path of each shell.
        directories: in front of PATH.
        listed_elsewhere: users whose shell another role sets.
        files: of the site, whole ones.
        blocks: of the site, in files of others, between lines made of `marker`.
        record: file with the shells of before.
        packages: file with the names of the packages that came with the role, a line each.
        dry: whether the roles before this one only looked, too: they may have left users out.
    """

    programs: dict[str, str]
    marker: str
    record: str
    packages: str
    users: Sequence[ShellUser] = ()
    directories: Sequence[str] = ()
    listed_elsewhere: Sequence[str] = ()
    files: Sequence[SiteFile] = ()
    blocks: Sequence[SiteFile] = ()
    state: str = "present"
    dry: bool = False

    def site_files(self) -> Iterator[SiteFile]:
        """Yield the files of all shells."""
        yield from self.files
        yield from (block._replace(marker=self.marker) for block in self.blocks)


@dataclass(frozen=True)
class Machine:
    """What the role reads of a machine.

    Attributes:
        users: of /etc/passwd: the shell of a user from a directory service is not the machine's.
        changes: by user, as recorded; None where the role was never here.
        installed: programs of the shells that came with the role, such as zsh.
        files: those of the site that exist, by path.
        programs: former shells that exist.
    """

    users: dict[str, Account] = field(default_factory=dict)
    changes: dict[str, Change] | None = None
    installed: frozenset[str] = frozenset()
    files: dict[str, File] = field(default_factory=dict)
    programs: frozenset[str] = frozenset()


def look_at_login_shells(shells: LoginShells) -> dict[str, Any]:
    """Return what is to be done, and for which `state`; an empty one: nothing.

    Raises:
        VerbError: `failed`: somebody would be locked out, or a list contradicts the machine.
    """
    machine = read_machine(shells)
    state, problems, differences = "", [], {}
    if shells.state == "absent" or not (shells.users or machine.changes is None):
        state, problems = "absent", [*problems_of_absence(machine)]
        differences = differences_of_absence(shells, machine)
    elif shells.users:
        state, problems = "present", [*problems_of_presence(shells, machine)]
        differences = differences_of_presence(shells, machine)
    if problems:
        raise VerbError(
            "failed", message="\n".join(["login_shell: nothing was changed.", *problems])
        )
    # Each shell is started as its user, whatever differs: the user may have changed what it reads.
    return {"differs": bool(state), "state": state, **differences}


def read_machine(shells: LoginShells) -> Machine:
    """Read what the plan needs."""
    record, packages = Path(shells.record), Path(shells.packages)
    changes = parse_record(record.read_text(encoding="utf-8")) if record.exists() else None
    installed = packages.read_text(encoding="utf-8").splitlines() if packages.exists() else []
    formers = {change.before for change in (changes or {}).values()}
    return Machine(
        users=parse_passwd(PASSWD.read_text(encoding="utf-8", errors="replace")),
        changes=changes,
        installed=frozenset(installed) & {"fish", "tcsh", "zsh"},
        files={
            file.path: read_file(Path(file.path))
            for file in shells.site_files()
            if Path(file.path).exists()
        },
        programs=frozenset(former for former in formers if former and Path(former).exists()),
    )


def read_file(path: Path) -> File:
    """Read a file of the site."""
    status = path.stat()
    access = (status.st_uid, status.st_gid, status.st_mode & 0o7777)
    return File(path.read_text(encoding="utf-8", errors="replace"), access)


def parse_passwd(text: str) -> dict[str, Account]:
    """Return the entries of passwd(5) by user."""
    entries = (line.split(":") for line in text.splitlines() if line.count(":") == 6)
    return {entry[0]: Account(int(entry[2]), entry[6]) for entry in entries}


def parse_record(text: str) -> dict[str, Change]:
    """Return the record's changes by user."""
    entries = (line.split(":") for line in text.splitlines() if line and line[0] != "#")
    return {user: Change(before, after) for user, before, after in entries}


def record_text(changes: dict[str, Change]) -> str:
    """Return the record: user, shell before and shell that was set."""
    return "".join(f"{user}:{before}:{after}\n" for user, (before, after) in changes.items())


def problems_of_presence(shells: LoginShells, machine: Machine) -> Iterator[str]:
    """Yield what speaks against setting the shells, a sentence each."""
    for user, count in Counter(user.name for user in shells.users).items():
        account = machine.users.get(user)
        if count > 1:
            yield f"{user} is listed more than once in login_shell_users."
        if account and account.uid == 0:
            yield f"{user} is root: keep the shell that the machine is repaired with."
        if account is None and not shells.dry:
            yield (
                f"{user} is not in /etc/passwd of this machine: list the user in site_accounts, or "
                "set the shell in the directory service (LDAP, say) that the user comes from."
            )
        if user in shells.listed_elsewhere:
            yield f"{user} has a shell in accounts_users too; name it in one place."
    for directory in shells.directories:
        if not PLAIN_DIRECTORY.fullmatch(directory):
            yield (
                f'"{directory}" in login_shell_path is not an absolute path of letters, digits, '
                '".", "_", "+" and "-".'
            )


def problems_of_absence(machine: Machine) -> Iterator[str]:
    """Yield who would be locked out when the shells go that came with the role."""
    changes = machine.changes or {}
    for user, account in machine.users.items():
        set_here = user in changes and account.shell == changes[user].after
        if Path(account.shell).name in machine.installed and not set_here:
            yield (
                f"{user} ({account.shell}) would be locked out: this role installed the shell, but "
                f"somebody else set it. Give them another one (chsh -s /bin/bash {user})."
            )


def differences_of_presence(shells: LoginShells, machine: Machine) -> dict[str, Any]:
    """Return what is to be done to set the shells."""
    changes = machine.changes or {}
    wanted = {user.name: shells.programs[user.shell] for user in shells.users}
    used = frozenset(user.shell for user in shells.users)
    record = {}
    for user, shell in wanted.items():
        now = machine.users[user].shell if user in machine.users else ""
        if user in changes:
            record[user] = Change(changes[user].before, shell)
        elif now != shell:
            record[user] = Change(now, shell)
    return {
        "site_files": [
            file.path
            for file in shells.site_files()
            if file.shell in used and not file.in_place(machine.files.get(file.path))
        ],
        "returns": _returns(changes.keys() - wanted.keys(), machine),
        "shells": [
            {"name": user, "shell": shell}
            for user, shell in wanted.items()
            if user in machine.users and machine.users[user].shell != shell
        ],
        "record": record_text(record),
        "record_differs": machine.changes != record,
        "stale_files": _stale_files(used, shells, machine),
    }


def differences_of_absence(shells: LoginShells, machine: Machine) -> dict[str, Any]:
    """Return what is to be done to give everybody the shell back that was there before."""
    return {
        "returns": _returns(set(machine.changes or {}), machine),
        "stale_files": _stale_files(frozenset(), shells, machine),
    }


def _returns(leavers: set[str], machine: Machine) -> list[dict[str, str]]:
    """Return who gets which shell back; who has chosen another one since keeps it."""
    returns = []
    for user in sorted(leavers):
        change = (machine.changes or {})[user]
        if user in machine.users and machine.users[user].shell == change.after:
            # One that has gone since would lock its user out.
            there = not change.before or change.before in machine.programs
            returns.append({"name": user, "shell": change.before if there else LAST_RESORT})
    return returns


def _stale_files(used: frozenset[str], shells: LoginShells, machine: Machine) -> list[str]:
    """Return the paths of site files for shells that nobody has."""
    return [
        file.path
        for file in shells.site_files()
        if file.shell not in used and file.left(machine.files.get(file.path))
    ]
