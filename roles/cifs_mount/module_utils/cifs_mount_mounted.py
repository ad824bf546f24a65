# Copyright Trainyard. Apache-2.0
"""What is mounted on this machine, what is in the way of a mount, and who uses one."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible.module_utils.cifs_mount_command import Refused, run
from ansible.module_utils.cifs_mount_share import Share

MOUNTS = Path("/proc/self/mountinfo")
PROCESSES = Path("/proc")


@dataclass(frozen=True)
class Holder:
    """A process that uses a mount point."""

    program: str
    pid: int
    user: str

    def __str__(self) -> str:
        return f"{self.program} (process {self.pid} of {self.user})"


def mounted_types(path: str, mounts: Path = MOUNTS) -> list[str]:
    """The types of the file systems on a mount point, the topmost last (proc(5), mountinfo)."""
    lines = [line.split() for line in mounts.read_text().splitlines()]
    return [line[line.index("-") + 1] for line in lines if line[4] == path]


def is_mounted(path: str) -> bool:
    """Whether a CIFS share is mounted on a path."""
    return "cifs" in mounted_types(path)


def is_active(share: Share) -> bool:
    """Whether a share is mounted, or will be when somebody looks at it."""
    return ("autofs" if share.automount else "cifs") in mounted_types(share.path)


def hidden_files(shares: Sequence[Share]) -> Iterator[str]:
    """Mount points that are no directories, or hold files which the share would hide."""
    for share in shares:
        path = Path(share.path)
        if mounted_types(share.path) or not path.exists():
            continue
        if not path.is_dir():
            yield f"{share.path} is not a directory. Move it, or give the share another path."
        elif any(path.iterdir()):
            yield (
                f"{share.path} holds files, which {share.src} would hide. Move them, or give the "
                "share another path."
            )


def foreign_mounts(shares: Sequence[Share], ours: Collection[str]) -> Iterator[str]:
    """Mount points that something else is mounted on.

    Args:
        ours: mount points of the role.
    """
    for share in shares:
        types = [name for name in mounted_types(share.path) if name != "autofs"]
        if types and share.path not in ours:
            yield (
                f"{share.path} is mounted already ({types[-1]}), and not by this role. Unmount it: "
                f"umount {share.path}"
            )


def kernel_has_cifs() -> bool:
    """Whether the kernel knows CIFS, or has a module to load."""
    if "\tcifs\n" in Path("/proc/filesystems").read_text():
        return True
    modprobe = shutil.which("modprobe", path="/usr/sbin:/sbin:/usr/bin:/bin")
    return modprobe is not None and run(modprobe, "--dry-run", "--quiet", "cifs").returncode == 0


def holders(path: str, processes: Path = PROCESSES) -> list[Holder]:
    """The processes that use a mount point."""
    users = []
    for process in processes.glob("[0-9]*"):
        links = [process / "cwd", process / "root", process / "exe"]
        try:
            links += list((process / "fd").iterdir())
            targets = [os.readlink(link) for link in links]
            program = (process / "comm").read_text().strip()
            uid = process.stat().st_uid
        except OSError:  # it ended meanwhile, or is the kernel's
            continue
        if any(f"{target}/".startswith(f"{path}/") for target in targets):
            try:
                user = pwd.getpwuid(uid).pw_name
            except KeyError:
                user = str(uid)
            users.append(Holder(program, int(process.name), user))
    return users


def refuse_busy(paths: Sequence[str]) -> None:
    """Refuse to go on while somebody uses what has to be unmounted."""
    busy = {path: holders(path) for path in paths if is_mounted(path)}
    sentences = [
        f"{path} has to be unmounted and is in use by {', '.join(map(str, processes))}. End them, "
        "or run this again when they are done."
        for path, processes in busy.items()
        if processes
    ]
    if sentences:
        raise Refused(*sentences)
