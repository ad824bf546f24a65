"""Data sets often lie on a share: a server that goes must not be taken for damaged data."""

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from trainer.errors import DataError

# What the kernel gives where it no longer reaches what is behind a file system: NFS, SMB, FUSE,
# and disks that fail.
GONE = frozenset(
    {
        errno.ECONNABORTED,
        errno.ECONNRESET,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EIO,
        errno.ENETUNREACH,
        errno.ENODEV,
        errno.ENOTCONN,
        errno.EREMOTEIO,
        errno.ESHUTDOWN,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)
MOUNTS = Path("/proc/self/mountinfo")


@dataclass(frozen=True)
class Mount:
    """A mounted file system.

    Attributes:
        point: where it is mounted, as this process sees it.
        kind: "cifs", "ext4", ...
        source: what is mounted: a device, or a server and its folder.
    """

    point: str
    kind: str
    source: str


def cannot_read(path: Path, error: Exception, otherwise: str) -> DataError:
    """Return the error to raise where a file of a data set cannot be read.

    Args:
        path: the file.
        error: what came of reading it.
        otherwise: the message for errors that the file itself is the cause of.
    """
    if not isinstance(error, OSError) or error.errno not in GONE:
        return DataError(otherwise)
    mount = mount_of(path)
    return DataError(
        f"the file system of {path} can no longer be read: {os.strerror(error.errno)}; "
        f"it is {mount.point} ({mount.kind} of {mount.source})"
    )


def mount_of(path: Path, mounts: Path = MOUNTS) -> Mount:
    """Find what a path lies on, without touching it: that may take for ever.

    proc(5), /proc/pid/mountinfo: the mount point is the fifth field; kind and source follow on a
    dash. Of two on one point the later covers the earlier.
    """
    found = Mount("/", "unknown", "unknown")
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        point = before.split()[4]
        kind, source = after.split()[:2]
        if path.is_relative_to(point) and len(point) >= len(found.point):
            found = Mount(point, kind, source)
    return found
