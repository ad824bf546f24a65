# Copyright Trainyard. Apache-2.0
"""The user and group of this machine that the files of a share belong to."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Callable
from dataclasses import dataclass

from ansible.module_utils.cifs_mount_command import Refused
from ansible.module_utils.cifs_mount_share import Share


@dataclass(frozen=True)
class Owner:
    """Numbers of a user and a group."""

    uid: int
    gid: int


def owner_of(share: Share) -> Owner:
    """The owner of a share's files; Refused where this machine has no such user or group."""
    return Owner(
        _number(share.uid, "user", lambda name: pwd.getpwnam(name).pw_uid),
        _number(share.gid, "group", lambda name: grp.getgrnam(name).gr_gid),
    )


def _number(name: str, kind: str, look_up: Callable[[str], int]) -> int:
    if name.isdigit():
        return int(name)
    try:
        return look_up(name)
    except KeyError:
        raise Refused(
            f"this node has no {kind} {name}. Make it with role accounts, or give its number."
        ) from None
