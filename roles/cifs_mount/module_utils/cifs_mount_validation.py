# Copyright Trainyard. Apache-2.0
"""Why shares cannot be mounted on this machine; nothing is touched to find out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ansible.module_utils.cifs_mount_command import Refused
from ansible.module_utils.cifs_mount_credentials import credentials_mount_points
from ansible.module_utils.cifs_mount_fstab import Fstab, lines_by_mount_point
from ansible.module_utils.cifs_mount_mistakes import mistakes
from ansible.module_utils.cifs_mount_mounted import foreign_mounts, hidden_files, kernel_has_cifs
from ansible.module_utils.cifs_mount_owner import owner_of
from ansible.module_utils.cifs_mount_share import Share


def obstacles(shares: Sequence[Share], wrong: Sequence[str], fstab: Fstab) -> list[str]:
    """Sentences about what is in the way of the shares.

    Args:
        shares: all of the machine.
        wrong: sentences about what could not even be read.
        fstab: the file of this machine.
    """
    sentences = [*wrong, *mistakes(shares, lines_by_mount_point(fstab.others))]
    if not sentences:
        # One whose line somebody took out of fstab still has its credentials.
        ours = {*fstab.ours, *credentials_mount_points()}
        sentences = [*hidden_files(shares), *foreign_mounts(shares, ours)]
    if shares and not Path("/run/systemd/system").is_dir():
        sentences.append("this node does not run systemd, which mounts the shares at boot.")
    if shares and not kernel_has_cifs():
        sentences.append(
            f"the kernel of this node ({os.uname().release}) has no CIFS. Install the package "
            "with its modules: on Ubuntu, linux-modules-extra-$(uname -r). A container uses "
            "the kernel of its host and cannot mount shares itself."
        )
    return sentences


def unknown_owners(shares: Sequence[Share]) -> list[str]:
    """Sentences about owners that this machine does not have."""
    sentences = []
    for share in shares:
        try:
            owner_of(share)
        except Refused as refusal:
            sentences.append(f"{share.src}: {refusal.args[0]}")
    return sentences
