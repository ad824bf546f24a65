# Copyright Trainyard. Apache-2.0
"""A CIFS share as the inventory describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Keys of a share whose value is no text.
NOT_TEXTS = frozenset(("seal", "automount", "directories", "options"))


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
