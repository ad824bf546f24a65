# Copyright Trainyard. Apache-2.0
"""Directories on a share, which its owner must be able to write in."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

from ansible.module_utils.cifs_mount_command import Refused
from ansible.module_utils.cifs_mount_owner import Owner
from ansible.module_utils.cifs_mount_share import Share


def missing_directories(share: Share) -> list[Path]:
    """Directories that the share has to have and has not."""
    paths = [Path(share.path, directory) for directory in share.directories]
    return [path for path in paths if not path.is_dir()]


def make_directories(share: Share, owner: Owner) -> None:
    """Make the directories; Refused where they are another's, or the owner cannot write there."""
    for path in missing_directories(share):
        path.mkdir(parents=True, exist_ok=True)
    for directory in share.directories:
        path = Path(share.path, directory)
        status = path.stat()
        if (status.st_uid, status.st_gid) != (owner.uid, owner.gid):
            raise Refused(
                f"{path} belongs to {status.st_uid}:{status.st_gid}, not to "
                f"{owner.uid}:{owner.gid}: the server decides who owns files. Add "
                f'"forceuid" and "forcegid" to the options of {share.src}.'
            )
        error = _write_error(path, owner)
        if error:
            raise Refused(
                f"user {owner.uid} cannot write into {path}: {error}. Give {share.username} the "
                f"right on the server, and the directory a mode that allows it ({share.dir_mode} "
                "now)."
            )


def _write_error(directory: Path, owner: Owner) -> str:
    """Why the owner cannot write in a directory; empty where they can."""
    file = directory / f".cifs_mount.{socket.gethostname()}"
    written = subprocess.run(
        ["/bin/sh", "-c", 'echo written > "$0" && rm "$0"', str(file)],
        user=owner.uid,
        group=owner.gid,
        extra_groups=[],
        capture_output=True,
        check=False,
    )
    error = written.stderr.decode(errors="replace").strip()
    return (error or f"exit status {written.returncode}") if written.returncode else ""
