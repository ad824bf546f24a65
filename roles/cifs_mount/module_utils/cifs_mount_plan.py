# Copyright Trainyard. Apache-2.0
"""What has to change on this machine, so that it has exactly the shares that it is to have."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ansible.module_utils.cifs_mount_share import Share


@dataclass(frozen=True)
class Plan:
    """Shares by what has to be done about them.

    Attributes:
        shares: all that the machine is to have.
        lines: their lines of fstab, in the same order.
        kept: those whose line is in fstab.
        changed: those that are new, or whose line or credentials are others now.
        untried: those that are not mounted just as they are to be: they must be shown to work.
        left: mount points of shares that go.
    """

    shares: tuple[Share, ...]
    lines: tuple[str, ...]
    kept: tuple[Share, ...]
    changed: tuple[Share, ...]
    untried: tuple[Share, ...]
    left: tuple[str, ...]


def make_plan(
    shares: Sequence[Share],
    lines: Mapping[str, str],
    ours: Mapping[str, str],
    credentials: Mapping[str, bool],
    mounted: Collection[str],
) -> Plan:
    """Compare what is to be with what is; everything goes by mount point.

    Args:
        shares: all that the machine is to have.
        lines: the lines that fstab is to have.
        ours: the lines of the role that it has.
        credentials: the mount points that have a credentials file, and whether it is current.
        mounted: mount points of `shares` that have CIFS mounted on them.
    """
    kept = tuple(share for share in shares if ours.get(share.path) == lines[share.path])
    current = [share for share in kept if credentials.get(share.path, False)]
    standing = [share for share in current if share.path in mounted]
    return Plan(
        shares=tuple(shares),
        lines=tuple(lines[share.path] for share in shares),
        kept=kept,
        changed=tuple(share for share in shares if share not in current),
        untried=tuple(share for share in shares if share not in standing),
        left=tuple(sorted({*ours, *credentials} - {share.path for share in shares})),
    )
