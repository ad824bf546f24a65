# Copyright Trainyard. Apache-2.0
"""Files with user and password of a share, which root alone reads."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ansible.module_utils.cifs_mount_share import Share

DIRECTORY = Path("/etc/cifs-credentials")


def credentials_path(mount_point: str, directory: Path = DIRECTORY) -> Path:
    """The credentials file of a share, named after its mount point."""
    return directory / mount_point[1:].replace("/", "@")


def credentials_mount_points(directory: Path = DIRECTORY) -> list[str]:
    """The mount points that have credentials."""
    if not directory.is_dir():
        return []
    return ["/" + file.name.replace("@", "/") for file in directory.iterdir()]


def credentials_text(share: Share) -> str:
    """What mount.cifs reads: all behind the first `=` of a line belongs to the value."""
    domain = f"domain={share.domain}\n" if share.domain else ""
    return f"username={share.username}\npassword={share.password}\n{domain}"


def write_credentials(path: Path, share: Share) -> None:
    """Replace a credentials file as a whole; at no moment can others read it."""
    handle, name = tempfile.mkstemp(dir=path.parent)  # mode 0600
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
        file.write(credentials_text(share))
    os.replace(name, path)


def credentials_are_current(share: Share, directory: Path = DIRECTORY) -> bool:
    """Whether the credentials file of a share says what it has to."""
    path = credentials_path(share.path, directory)
    try:
        return path.read_text(encoding="utf-8", errors="replace") == credentials_text(share)
    except FileNotFoundError:
        return False


def store_credentials(shares: Sequence[Share], directory: Path = DIRECTORY) -> None:
    """Write the credentials of shares."""
    for share in shares:
        directory.mkdir(mode=0o700, exist_ok=True)
        write_credentials(credentials_path(share.path, directory), share)


def remove_credentials(mount_points: Sequence[str], directory: Path = DIRECTORY) -> None:
    """Remove the credentials of shares that leave, and the directory with the last one."""
    for mount_point in mount_points:
        credentials_path(mount_point, directory).unlink(missing_ok=True)
    if directory.is_dir() and not any(directory.iterdir()):
        directory.rmdir()


def restrict_credentials(shares: Sequence[Share], directory: Path = DIRECTORY) -> list[Path]:
    """Let root alone read the credentials of all shares; returns the paths that others could."""
    opened = []
    files = [credentials_path(share.path, directory) for share in shares]
    for path, mode in [(directory, 0o700), *((file, 0o600) for file in files)]:
        status = path.stat()
        if (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) != (mode, 0, 0):
            os.chown(path, 0, 0)
            path.chmod(mode)
            opened.append(path)
    return opened
