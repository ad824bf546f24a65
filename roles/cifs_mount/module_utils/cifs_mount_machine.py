"""What is mounted on this machine, what is in the way of shares, and who uses one."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from ansible.module_utils.cifs_mount_share import Share

MOUNTS = Path("/proc/self/mountinfo")
PROCESSES = Path("/proc")


def run(*command: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a command, both outputs as one text in English.

    Raises:
        subprocess.TimeoutExpired: it ran longer than `seconds`.
    """
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=seconds,
        env={**os.environ, "LC_ALL": "C"},
        check=False,
    )


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


def obstacles(shares: Sequence[Share], ours: Collection[str]) -> Iterator[str]:
    """Yield what is in the way of shares on this machine, a sentence each.

    Args:
        ours: mount points of the role.
    """
    for share in shares:
        path, types = Path(share.path), mounted_types(share.path)
        others = [name for name in types if name != "autofs"]
        if others and share.path not in ours:
            yield (
                f"{path} is mounted already ({others[-1]}), and not by this role. Unmount it: "
                f"umount {path}"
            )
        elif not types and path.exists() and not path.is_dir():
            yield f"{path} is not a directory. Move it, or give the share another path."
        elif not types and path.exists() and any(path.iterdir()):
            yield (
                f"{path} holds files, which {share.src} would hide. Move them, or give the share "
                "another path."
            )
    if shares and not Path("/run/systemd/system").is_dir():
        yield "this node does not run systemd, which mounts the shares at boot."
    if shares and not _kernel_has_cifs():
        yield (
            f"the kernel of this node ({os.uname().release}) has no CIFS. Install the package "
            "with its modules: on Ubuntu, linux-modules-extra-$(uname -r). A container uses "
            "the kernel of its host and cannot mount shares itself."
        )


def _kernel_has_cifs() -> bool:
    """Whether the kernel knows CIFS, or has a module to load."""
    if "\tcifs\n" in Path("/proc/filesystems").read_text():
        return True
    modprobe = shutil.which("modprobe", path="/usr/sbin:/sbin:/usr/bin:/bin")
    return modprobe is not None and run(modprobe, "--dry-run", "--quiet", "cifs").returncode == 0


def holders(path: str, processes: Path = PROCESSES) -> list[str]:
    """The processes that use a mount point, such as `sleep (process 7 of ada)`."""
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
            users.append(f"{program} (process {process.name} of {user})")
    return users


def busy(paths: Sequence[str]) -> Iterator[str]:
    """Yield who uses what has to be unmounted, a sentence for each path."""
    for path in paths:
        if is_mounted(path) and (users := holders(path)):
            yield (
                f"{path} has to be unmounted and is in use by {', '.join(users)}. End them, or run "
                "this again when they are done."
            )
