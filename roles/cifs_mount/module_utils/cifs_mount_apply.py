# Copyright Trainyard. Apache-2.0
"""From the plan to the machine: credentials, units, fstab, mount points, mounts, directories."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ansible.module_utils.cifs_mount_command import Refused
from ansible.module_utils.cifs_mount_credentials import (
    credentials_are_current,
    credentials_mount_points,
    remove_credentials,
    restrict_credentials,
    store_credentials,
)
from ansible.module_utils.cifs_mount_directories import make_directories, missing_directories
from ansible.module_utils.cifs_mount_fstab import FSTAB, Fstab, fstab_line
from ansible.module_utils.cifs_mount_mounted import (
    is_active,
    is_mounted,
    mounted_types,
    refuse_busy,
)
from ansible.module_utils.cifs_mount_owner import owner_of
from ansible.module_utils.cifs_mount_plan import Plan, make_plan
from ansible.module_utils.cifs_mount_points import make_mount_point, remove_mount_point
from ansible.module_utils.cifs_mount_share import Share
from ansible.module_utils.cifs_mount_units import (
    add_patience,
    reload_systemd,
    remove_patience,
    start_share,
    stop_share,
)


def survey(shares: Sequence[Share], fstab: Fstab, seconds: int, dry_run: bool) -> Plan:
    """Look at the machine, and plan.

    Args:
        shares: all that the machine is to have.
        fstab: its file as it is.
        seconds: how long a mount may take.
        dry_run: whether owners may be missing, which role accounts has not made then.

    Raises:
        Refused: this machine has no such owner.
    """
    try:
        lines = {share.path: str(fstab_line(share, owner_of(share), seconds)) for share in shares}
    except Refused:
        if not dry_run:
            raise
        lines = {share.path: "" for share in shares}
    current = {share.path for share in shares if credentials_are_current(share)}
    return make_plan(
        shares,
        lines,
        fstab.ours,
        {path: path in current for path in credentials_mount_points()},
        [share.path for share in shares if is_mounted(share.path)],
    )


def announce(plan: Plan) -> list[str]:
    """What the plan changes about shares that come, change or go, a line each."""
    return [
        *(f"{share.src} at {share.path}" for share in plan.changed),
        *(f"{path} removed" for path in plan.left),
    ]


def announce_mounts(plan: Plan) -> list[str]:
    """What a dry run can tell of shares whose line is in fstab, a line each."""
    changes = []
    for share in plan.kept:
        if not is_active(share):
            changes.append(f"{share.path} mounted")
        elif is_mounted(share.path):
            changes += [f"{path} made" for path in missing_directories(share)]
    return changes


def apply(plan: Plan, fstab: Fstab, write_fstab: Callable[[str], None]) -> list[str]:
    """Do what is missing; returns what was changed, a line each.

    Args:
        plan: made from the machine as it is; its shares have been tried.
        fstab: the file as it is.
        write_fstab: replaces the file by a text.

    Raises:
        Refused: somebody uses what has to be unmounted, or a mount fails.
        subprocess.TimeoutExpired: a command does not end.
    """
    changes = announce(plan)
    to_stop = [*plan.left, *(share.path for share in plan.changed)]
    to_stop = [path for path in to_stop if mounted_types(path)]
    refuse_busy(to_stop)
    for path in to_stop:
        stop_share(path)
    store_credentials(plan.changed)
    remove_credentials(plan.left)
    if plan.shares:
        changes += [f"mode of {path}" for path in restrict_credentials(plan.shares)]
    changes += _write_boot_files(plan, fstab, write_fstab, bool(changes))
    for share in plan.shares:
        make_mount_point(share.path)
    for share in plan.shares:
        if not is_active(share):
            start_share(share)
            if share not in plan.changed:
                changes.append(f"{share.path} mounted")
        changes += [f"{path} made" for path in missing_directories(share)]
        make_directories(share, owner_of(share))
    for path in plan.left:
        remove_mount_point(path)
    return changes


def _write_boot_files(
    plan: Plan, fstab: Fstab, write_fstab: Callable[[str], None], explained: bool
) -> list[str]:
    """Write fstab and the additions to systemd's

    Args:
        explained: whether a change of fstab follows from what is announced already.
    """
    added = [add_patience(share.path) for share in plan.shares]
    changes = [str(file) for file in added if file is not None]
    removed = [path for path in plan.left if remove_patience(path)]
    text = fstab.with_lines(plan.lines)
    if text != fstab.text:
        write_fstab(text)
        if not explained and not changes:
            changes.append(str(FSTAB))
    if changes or removed or text != fstab.text:
        reload_systemd()
    return changes
