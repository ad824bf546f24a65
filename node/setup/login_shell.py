"""Login shells of a machine, compared with those of the inventory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..failure import VerbError
from .login_shell_differences import (
    Settings,
    SiteFile,
    differences_of_absence,
    differences_of_presence,
    problems_of_absence,
    problems_of_presence,
    read_machine,
)


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
        packages: file with the names of the packages that came with the role.
        dry: whether the roles before this one only looked, too.
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


def look_at_login_shells(shells: LoginShells) -> dict[str, Any]:
    """Return what is to be done, and for which `state`; an empty one: nothing.

    Raises:
        VerbError: `failed`: somebody would be locked out, or a list contradicts the machine.
    """
    settings = Settings(
        users={user.name: shells.programs[user.shell] for user in shells.users},
        names=tuple(user.name for user in shells.users),
        shells=frozenset(user.shell for user in shells.users),
        directories=tuple(shells.directories),
        listed_elsewhere=frozenset(shells.listed_elsewhere),
        site_files=(
            *shells.files,
            *(block._replace(marker=shells.marker) for block in shells.blocks),
        ),
    )
    machine = read_machine(settings, Path(shells.record), Path(shells.packages))
    state, problems, differences = "", [], {}
    if shells.state == "absent" or not (shells.users or machine.changes is None):
        state, problems = "absent", [*problems_of_absence(machine)]
        differences = differences_of_absence(settings, machine)
    elif shells.users:
        state, problems = "present", [*problems_of_presence(settings, machine, shells.dry)]
        differences = differences_of_presence(settings, machine)
    if problems:
        raise VerbError(
            "failed", message="\n".join(["login_shell: nothing was changed.", *problems])
        )
    # Each shell is started as its user, whatever differs: the user may have changed what it reads.
    return {"differs": bool(state), "state": state, **differences}
