"""A mount on the side, for a moment: what works there may be written into fstab."""

import errno
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from io import RawIOBase
from pathlib import Path

from ansible.module_utils.cifs_mount_cause import no_connection, no_mount
from ansible.module_utils.cifs_mount_machine import mounted_types, run
from ansible.module_utils.cifs_mount_share import Refused, Share

CONNECT_SECONDS = 5
RUNTIME = Path("/run")
# Servers that are connected to at the same time.
PARALLEL = 8


def try_shares(shares: Sequence[Share], seconds: int, connect_only: bool) -> None:
    """Mount shares on the side.

    Args:
        seconds: how long a mount may take.
        connect_only: only connect to the servers, which changes nothing.

    Raises:
        Refused: a sentence for each share that fails.
    """
    with ThreadPoolExecutor(PARALLEL) as pool:
        troubles = list(pool.map(connection_trouble, shares))
    if not connect_only:
        troubles = [
            trouble or mount_trouble(share, seconds)
            for share, trouble in zip(shares, troubles, strict=True)
        ]
    if any(troubles):
        raise Refused(*filter(None, troubles))


def connection_trouble(share: Share) -> str:
    """Why the server cannot be reached, or the empty string."""
    try:
        socket.create_connection((share.host, share.port), CONNECT_SECONDS).close()
    except OSError as error:
        return str(no_connection(share, error))
    return ""


def mount_trouble(share: Share, seconds: int) -> str:
    """Why a share cannot be mounted on the side, or the empty string."""
    with open("/dev/kmsg", "rb", buffering=0, opener=_not_waiting) as log:
        log.seek(0, os.SEEK_END)
        output = _mount(share, seconds)
        if output is None:
            return ""
        kernel = list(kernel_lines(log))
    root = "/".join(share.src.split("/")[:4])
    # The error number is the same for a missing share and for a missing folder in it.
    without_folder = (
        root != share.src
        and f"({errno.ENOENT})" in output
        and _mount(replace(share, src=root), seconds) is None
    )
    return str(no_mount(share, output, kernel, without_folder))


def _mount(share: Share, seconds: int) -> str | None:
    """What mount.cifs says; nothing when the limit ended it, and None when the mount worked."""
    # Not a TemporaryDirectory: it would remove the files of a share that stays mounted.
    # Root alone looks into it.
    directory = Path(tempfile.mkdtemp(prefix="cifs_mount.", dir=RUNTIME))
    point = directory / "mount"
    try:
        credentials = directory / "credentials"
        credentials.write_text(share.credentials, encoding="utf-8", newline="")
        point.mkdir(mode=0o700)
        options = share.mount_options(credentials)
        mount = run("mount", "-t", "cifs", "-o", options, share.src, str(point), seconds=seconds)
        return str(mount.stdout).strip() if mount.returncode else None
    except subprocess.TimeoutExpired:
        return ""
    finally:
        # The file with the password, and what a full disk left of it
        for file in set(directory.iterdir()) - {point}:
            file.unlink()
        _unmount(str(point), seconds)
        for path in (point, directory):
            with suppress(OSError):  # still mounted: the kernel has not let go of it
                path.rmdir()


def _unmount(point: str, seconds: int) -> None:
    """Unmount what is on a mount point: at once, or as soon as nobody uses it any more."""
    for option in ((), ("--lazy",)):
        if not mounted_types(point):
            return
        with suppress(subprocess.TimeoutExpired):
            run("umount", *option, point, seconds=seconds)


def _not_waiting(path: str, flags: int) -> int:
    """Open a file whose reads return at once where there is nothing to read."""
    return os.open(path, flags | os.O_NONBLOCK)


def kernel_lines(log: RawIOBase) -> Iterator[str]:
    """The lines of the kernel's log from where it was opened, those of CIFS alone."""
    while True:
        try:
            entry = log.read(8192)
        except BrokenPipeError:  # overwritten before it was read
            continue
        if not entry:
            return
        # Fields for machines, a semicolon, the text, and further lines about devices.
        text = entry.decode(errors="replace").split(";", 1)[-1].split("\n")[0]
        if "CIFS" in text:
            yield text
