# Copyright Trainyard. Apache-2.0
"""A CIFS share as the files of a machine have it: its rules, its line in fstab, its credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CREDENTIALS = Path("/etc/cifs-credentials")
BEGIN = "# BEGIN Ansible, role cifs_mount"
END = "# END Ansible, role cifs_mount"

# Sizes of the buffers of mount.cifs (mount.cifs.c), which cuts what is longer.
LONGEST_NAME = 255
LONGEST_PASSWORD = 511

OLD_VERSIONS = ("1.0", "2.0", "2.1")
# Options that a key of the share stands for, or that the role sets itself.
GOVERNED = {
    "username": "username", "user": "username", "password": "password", "pass": "password",
    "domain": "domain", "dom": "domain", "uid": "uid", "gid": "gid", "file_mode": "file_mode",
    "dir_mode": "dir_mode", "vers": "version", "seal": "seal", "credentials": "username",
    "cred": "username", "x-systemd.automount": "automount", "noauto": "automount",
}  # fmt: skip


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
        given = [option for option in self.options if option.startswith("port=")]
        return int(given[-1].removeprefix("port=")) if given else 445

    @property
    def credentials(self) -> Path:
        """The file with user and password."""
        return CREDENTIALS / self.path[1:].replace("/", "@")

    def credentials_text(self) -> str:
        """What mount.cifs reads: all behind the first `=` of a line belongs to the value."""
        domain = f"domain={self.domain}\n" if self.domain else ""
        return f"username={self.username}\npassword={self.password}\n{domain}"

    def mount_options(self, uid: int, gid: int, credentials: Path) -> str:
        """The options that the mount itself takes, for mount(8).

        Args:
            uid: number of the user that the files belong to.
            gid: number of their group.
            credentials: the file to name in them.
        """
        options = [
            f"credentials={credentials}",
            f"uid={uid}",
            f"gid={gid}",
            f"file_mode={self.file_mode}",
            f"dir_mode={self.dir_mode}",
            # Of names, and of the password too. Some kernels take Latin-1 unless told.
            "iocharset=utf8",
            f"vers={self.version}",
            *(["seal"] if self.seal else []),
            *self.options,
        ]
        return ",".join(options)

    def fstab_line(self, uid: int, gid: int, seconds: int) -> str:
        """The line of /etc/fstab.

        Args:
            uid: number of the user that the files belong to.
            gid: number of their group.
            seconds: how long the mount may take before systemd gives up.
        """
        # Mounted after the network, and missed by nobody who boots without the server.
        systemd = ["_netdev", "nofail", f"x-systemd.mount-timeout={seconds}"]
        if self.automount:
            systemd.append("x-systemd.automount")
        options = ",".join([self.mount_options(uid, gid, self.credentials), *systemd])
        return f"{escaped(self.src)} {self.path} cifs {escaped(options)} 0 0"


def escaped(word: str) -> str:
    """A word of fstab, whose fields are separated by blanks."""
    return "".join(f"\\{ord(c):03o}" if c in " \t\\#" else c for c in word)


def path_of_credentials(name: str) -> str:
    """The mount point whose credentials are in a file of that name."""
    return "/" + name.replace("@", "/")


def split_fstab(text: str) -> tuple[list[str], list[str]]:
    """Separate the role's lines of fstab from all others, without the markers."""
    ours: list[str] = []
    others: list[str] = []
    inside = False
    for line in text.splitlines():
        if line in (BEGIN, END):
            inside = line == BEGIN
        else:
            (ours if inside else others).append(line)
    return ours, others


def join_fstab(ours: Sequence[str], others: Sequence[str]) -> str:
    """The text of fstab; without lines of the role, without its markers."""
    block = [BEGIN, *ours, END] if ours else []
    return "".join(f"{line}\n" for line in [*others, *block])


def mount_points(lines: Sequence[str]) -> dict[str, str]:
    """The line of each mount point."""
    fields = {line: line.split() for line in lines if not line.lstrip().startswith("#")}
    return {words[1]: line for line, words in fields.items() if len(words) > 1}


def problems(shares: Sequence[Share], others: Mapping[str, str]) -> list[str]:
    """What makes shares impossible, for people, with remedy; never with a password in it.

    Args:
        shares: all that are wanted.
        others: lines of fstab that are not the role's, by mount point.
    """
    found: list[str] = []
    for number, share in enumerate(shares, start=1):
        complaints = [
            *_about_source(share.src),
            *_about_path(share.path, others),
            *_about_account(share),
            *_about_options(share),
        ]
        for other in shares[: number - 1]:
            if _nested(other.path, share.path) or _nested(share.path, other.path):
                complaints.append(
                    f'path "{share.path}" lies in the path of {other.src}, or is the same, or '
                    "holds it. Give each share a path of its own."
                )
        found += [f"share {number} ({share.src}): {complaint}" for complaint in complaints]
    return found


def _nested(outer: str, inner: str) -> bool:
    return f"{inner}/".startswith(f"{outer}/")


def _about_source(src: str) -> list[str]:
    if "\\" in src:
        return [f'src is written with slashes: "{src.replace(chr(92), "/")}".']
    if not re.fullmatch(r"//[^/\s,]+(/[^/,\x00-\x1f]+)+", src):
        return ["src must be //server/share or //server/share/folder, without a comma."]
    return []


def _about_path(path: str, others: Mapping[str, str]) -> list[str]:
    if not re.fullmatch(r"(/[A-Za-z0-9_.-]+)+", path) or {".", ".."} & set(path.split("/")):
        return [
            f'path "{path}" must be absolute, without a slash at its end, of letters, digits and '
            "the characters . _ - only."
        ]
    if path in others:
        return [
            f'/etc/fstab has another line for "{path}": "{others[path]}". Remove that line, or '
            "give the share another path."
        ]
    return []


def _about_account(share: Share) -> list[str]:
    found = []
    if not share.username:
        found.append("username is missing.")
    for name, value in (("username", share.username), ("domain", share.domain)):
        if re.search(r"[,\x00-\x1f]", value):
            found.append(
                f"{name} has a comma or a control character, which mount.cifs cannot pass on. "
                "Use another account."
            )
        if len(value.encode()) > LONGEST_NAME:
            found.append(f"{name} is longer than {LONGEST_NAME} bytes.")
    if "\\" in share.username:
        found.append('username has a backslash. Put what is before it into "domain".')
    if not share.password:
        found.append("password is empty or missing. Take it from Ansible Vault.")
    if re.search(r"[\x00\r\n]", share.password):
        found.append(
            "password has a line break, which no credentials file can hold. A vaulted text often "
            "ends in one by mistake: encrypt it with `ansible-vault encrypt_string`, or "
            "`printf %s` instead of `echo`; else change the password on the server."
        )
    # mount.cifs doubles each comma.
    if len(share.password.encode()) + share.password.count(",") > LONGEST_PASSWORD:
        found.append(f"password is longer than {LONGEST_PASSWORD} bytes. Change it on the server.")
    return found


def _about_options(share: Share) -> list[str]:
    found = []
    for name, mode in (("file_mode", share.file_mode), ("dir_mode", share.dir_mode)):
        if not re.fullmatch(r"0?[0-7]{3}", mode):
            found.append(f'{name} "{mode}" must be octal and in quotes, such as "0644".')
    if share.seal and share.version in OLD_VERSIONS:
        found.append(
            f"seal needs version 3.0 or later, not {share.version}: older ones have no encryption."
        )
    for option in share.options:
        key = GOVERNED.get(option.split("=")[0].lower())
        if not re.fullmatch(r"[^\s,\"']+", option):
            found.append(f'option "{option}" has a blank, a comma or a quote. Give one at a time.')
        elif key:
            found.append(f'option "{option.split("=")[0]}": use the key "{key}" of the share.')
        elif option.startswith("port=") and not re.fullmatch(r"port=[0-9]{1,5}", option):
            found.append(f'option "{option}" is not a port.')
    for directory in share.directories:
        if not re.fullmatch(r"[^/\x00-\x1f]+(/[^/\x00-\x1f]+)*", directory) or {
            ".",
            "..",
        } & set(directory.split("/")):
            found.append(f'directory "{directory}" must be a path inside of the share.')
    return found
