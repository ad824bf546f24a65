"""A CIFS share as the inventory describes it, and what stands of it in a machine's files."""

import grp
import pwd
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

CREDENTIALS = Path("/etc/cifs-credentials")
UNITS = Path("/etc/systemd/system")
BEGIN, END = (f"# {mark} Ansible, role cifs_mount" for mark in ("BEGIN", "END"))
# Keys of a share whose value is no text.
NOT_TEXTS = frozenset(("seal", "automount", "directories", "options"))


class Refused(Exception):
    """What ends the module; its arguments are sentences for people, each with a remedy."""


class Owner(NamedTuple):
    """Numbers of the user and the group that files belong to."""

    uid: int
    gid: int


@dataclass(frozen=True)
class Share:
    """One share and where it goes; the names are those of `cifs_mount_shares`.

    `uid` and `gid` are numbers or names. The password is not shown by repr().
    """

    src: str
    path: str
    username: str
    password: str = field(repr=False)
    domain: str = ""
    uid: str = "0"
    gid: str = "0"
    file_mode: str = "0644"
    dir_mode: str = "0755"
    version: str = "default"
    seal: bool = False
    automount: bool = True
    directories: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def host(self) -> str:
        """Name or address of the server."""
        return self.src[2:].split("/")[0]

    @property
    def port(self) -> int:
        """The server's port."""
        ports = [option for option in self.options if option.startswith("port=")]
        return int(ports[-1].removeprefix("port=")) if ports else 445

    @property
    def owner(self) -> Owner:
        """The owner of the share's files; Refused where this machine has no such user or group."""
        return Owner(
            _number(self.uid, "user", lambda name: pwd.getpwnam(name).pw_uid),
            _number(self.gid, "group", lambda name: grp.getgrnam(name).gr_gid),
        )

    @property
    def credentials(self) -> str:
        """What mount.cifs reads: all behind the first `=` of a line belongs to the value."""
        domain = f"domain={self.domain}\n" if self.domain else ""
        return f"username={self.username}\npassword={self.password}\n{domain}"

    def mount_options(self, credentials: Path) -> str:
        """The options that the mount itself takes, for mount(8); `credentials` is the file."""
        owner = self.owner
        options = [
            f"credentials={credentials}",
            f"uid={owner.uid}",
            f"gid={owner.gid}",
            f"file_mode={self.file_mode}",
            f"dir_mode={self.dir_mode}",
            # Of names, and of the password too. Some kernels take Latin-1 unless told.
            "iocharset=utf8",
            f"vers={self.version}",
            *(["seal"] if self.seal else []),
            *self.options,
        ]
        return ",".join(options)

    def fstab_line(self, seconds: int) -> str:
        """The line of fstab; `seconds` is how long the mount may take before systemd gives up."""
        # Mounted after the network, and missed by nobody who boots without the server.
        systemd = ["_netdev", "nofail", f"x-systemd.mount-timeout={seconds}"]
        if self.automount:
            systemd.append("x-systemd.automount")
        options = ",".join([self.mount_options(credentials_path(self.path)), *systemd])
        return f"{_escaped(self.src)} {self.path} cifs {_escaped(options)} 0 0"


def _number(name: str, kind: str, look_up: Callable[[str], int]) -> int:
    try:
        return int(name) if name.isdigit() else look_up(name)
    except KeyError:
        raise Refused(
            f"this node has no {kind} {name}. Make it with role accounts, or give its number."
        ) from None


def parse_share(entry: Mapping[str, Any], password: str, uid: str, gid: str) -> Share:
    """A share from its entry in `cifs_mount_shares`.

    Args:
        entry: the keys of the share, without `password`; numbers stand for texts.
        password: of the account.
        uid: user that files belong to where the entry names none.
        gid: group likewise.
    """
    values = {"uid": uid, "gid": gid, **entry}
    texts = {
        key: str(value)
        for key, value in values.items()
        if key not in NOT_TEXTS and value is not None
    }
    return Share(
        **texts,
        password=password,
        seal=bool(entry.get("seal", False)),
        automount=bool(entry.get("automount", True)),
        directories=tuple(map(str, entry.get("directories", ()))),
        options=tuple(map(str, entry.get("options", ()))),
    )


def credentials_path(path: str) -> Path:
    """The credentials file of a share, named after its mount point."""
    return CREDENTIALS / path[1:].replace("/", "@")


def unit_name(path: str, kind: str) -> str:
    """The name of systemd's unit for a mount point, as systemd-escape(1) writes it.

    Args:
        path: of letters, digits and the characters `/._-`.
        kind: `mount` or `automount`.
    """
    escaped = path[1:].replace("-", "\\x2d").replace("/", "-")
    if escaped.startswith("."):
        escaped = "\\x2e" + escaped[1:]
    return f"{escaped}.{kind}"


def drop_in(path: str) -> Path:
    """The role's file for the unit of a mount point."""
    return UNITS / f"{unit_name(path, 'mount')}.d" / "cifs_mount.conf"


def split_fstab(text: str) -> tuple[list[str], list[str]]:
    """The lines of fstab that are the role's, without its markers, and all others.

    What stands behind a first line whose last one somebody deleted is not the role's to unmount.
    """
    ours: list[str] = []
    others: list[str] = []
    block: list[str] | None = None
    for line in text.splitlines():
        if line in (BEGIN, END):
            (ours if line == END else others).extend(block or [])
            block = [] if line == BEGIN else None
        else:
            (others if block is None else block).append(line)
    return ours, others + (block or [])


def by_mount_point(lines: Sequence[str]) -> dict[str, str]:
    """The line of each mount point."""
    fields = {line: line.split() for line in lines if not line.lstrip().startswith("#")}
    return {words[1].rstrip("/") or "/": line for line, words in fields.items() if len(words) > 1}


def _escaped(word: str) -> str:
    """A word of fstab, whose fields are separated by blanks."""
    return "".join(f"\\{ord(c):03o}" if c in " \t\\#" else c for c in word)
