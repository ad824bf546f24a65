# Copyright Trainyard. Apache-2.0
"""The role's block of /etc/fstab; all other lines stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible.module_utils.cifs_mount_credentials import credentials_path
from ansible.module_utils.cifs_mount_owner import Owner
from ansible.module_utils.cifs_mount_share import Share

FSTAB = Path("/etc/fstab")
BEGIN = "# BEGIN Ansible, role cifs_mount"
END = "# END Ansible, role cifs_mount"


@dataclass(frozen=True)
class Fstab:
    """The file, read.

    Attributes:
        text: the whole of it.
        ours: the role's lines by mount point, without its markers.
        others: all other lines, comments included.
    """

    text: str
    ours: dict[str, str]
    others: tuple[str, ...]

    def with_lines(self, lines: Sequence[str]) -> str:
        """The text with these lines as the role's block; without any, without its markers."""
        if not lines and not self.ours:
            return self.text
        block = [BEGIN, *lines, END] if lines else []
        return "".join(f"{line}\n" for line in [*self.others, *block])


def parse_fstab(text: str) -> Fstab:
    """Separate the role's lines from all others."""
    ours: list[str] = []
    others: list[str] = []
    inside = False
    for line in text.splitlines():
        if line in (BEGIN, END):
            inside = line == BEGIN
        else:
            (ours if inside else others).append(line)
    return Fstab(text, lines_by_mount_point(ours), tuple(others))


def read_fstab(path: Path = FSTAB) -> Fstab:
    """The file of this machine, which may have none."""
    return parse_fstab(path.read_text() if path.exists() else "")


def lines_by_mount_point(lines: Sequence[str]) -> dict[str, str]:
    """The line of each mount point."""
    fields = {line: line.split() for line in lines if not line.lstrip().startswith("#")}
    return {words[1]: line for line, words in fields.items() if len(words) > 1}


def fstab_line(share: Share, owner: Owner, seconds: int) -> str:
    """The line of a share.

    Args:
        owner: of its files.
        seconds: how long the mount may take before systemd gives up.
    """
    # Mounted after the network, and missed by nobody who boots without the server.
    systemd = ["_netdev", "nofail", f"x-systemd.mount-timeout={seconds}"]
    if share.automount:
        systemd.append("x-systemd.automount")
    own = share.mount_options(owner.uid, owner.gid, credentials_path(share.path))
    options = ",".join([own, *systemd])
    return f"{escaped(share.src)} {share.path} cifs {escaped(options)} 0 0"


def escaped(word: str) -> str:
    """A word of fstab, whose fields are separated by blanks."""
    return "".join(f"\\{ord(c):03o}" if c in " \t\\#" else c for c in word)
