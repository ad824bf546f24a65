"""Mounted file systems, and what the kernel says when one of them is out of reach."""

import errno
from dataclasses import dataclass
from pathlib import Path

# What the kernel returns where it no longer reaches what is behind a file system: NFS, SMB, FUSE,
# and disks that fail.
OUT_OF_REACH = frozenset(
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
MOUNTINFO = Path("/proc/self/mountinfo")


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

    def __str__(self) -> str:
        return f"{self.point} ({self.kind} of {self.source})"


def mounts(table: Path = MOUNTINFO) -> list[Mount]:
    """The mounted file systems in the order of mounting: of two on one point the later counts.

    proc(5), /proc/pid/mountinfo: the mount point is the fifth field; kind and source follow on a
    dash.
    """
    entries = []
    for line in table.read_text(encoding="utf-8", errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        kind, source = after.split()[:2]
        entries.append(Mount(before.split()[4], kind, source))
    return entries


def mount_of(path: Path, table: Path = MOUNTINFO) -> Mount:
    """Return the mount that holds a path, without touching the path: that could block."""
    nearest = Mount("/", "unknown", "unknown")
    for mount in mounts(table):
        if path.is_relative_to(mount.point) and len(mount.point) >= len(nearest.point):
            nearest = mount
    return nearest
