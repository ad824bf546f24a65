"""Mounts shares the way that a boot does, with their mount points and directories."""

import socket
import subprocess
from pathlib import Path

from ansible.module_utils.cifs_mount_machine import is_mounted, run
from ansible.module_utils.cifs_mount_share import Owner, Refused, Share, unit_name

# The directories that were made here, a line each.
RECORD = Path("/var/lib/trainyard/cifs_mount")
# A dead server makes a mount wait for its own limits.
START_SECONDS = 90


def make_mount_point(path: str, record: Path = RECORD) -> None:
    """Make a mount point, and record each directory that was missing on the way to it."""
    point = Path(path)
    missing = [parent for parent in [*reversed(point.parents), point] if not parent.exists()]
    if not missing:
        return
    record.parent.mkdir(parents=True, exist_ok=True)
    with record.open("a") as file:
        file.writelines(f"{directory}\n" for directory in missing)
    point.mkdir(parents=True)


def remove_mount_point(path: str, record: Path = RECORD) -> None:
    """Remove a mount point that was made here, and what was made above it, once empty."""
    recorded = record.read_text().splitlines() if record.exists() else []
    for directory in [Path(path), *Path(path).parents]:
        if str(directory) in recorded:
            try:
                directory.rmdir()
            except OSError:  # something else is in it: it stays, and so does its record
                break
            recorded.remove(str(directory))
    if recorded:
        record.write_text("".join(f"{directory}\n" for directory in recorded))
        return
    record.unlink(missing_ok=True)
    if record.parent.is_dir() and not any(record.parent.iterdir()):
        record.parent.rmdir()


def start_share(share: Share) -> None:
    """Mount a share the way that a boot does.

    Raises:
        Refused: that fails.
        subprocess.TimeoutExpired: a command takes longer than START_SECONDS.
    """
    mount = unit_name(share.path, "mount")
    name = unit_name(share.path, "automount") if share.automount else mount
    run("systemctl", "reset-failed", name, mount)
    started = run("systemctl", "start", name, seconds=START_SECONDS)
    listing = run("ls", share.path, seconds=START_SECONDS)
    if started.returncode or listing.returncode or not is_mounted(share.path):
        journal = run("journalctl", "--unit", mount, "--lines=5", "--output=cat")
        raise Refused(
            f"{share.src} could be mounted on the side, but not at {share.path}: "
            f"{' '.join((started.stdout + listing.stdout + journal.stdout).split())}"
        )


def missing_directories(share: Share) -> list[Path]:
    """Directories that the share has to have and has not."""
    paths = [Path(share.path, directory) for directory in share.directories]
    return [path for path in paths if not path.is_dir()]


def make_directories(share: Share) -> None:
    """Make the directories; Refused where they are another's, or the owner cannot write there."""
    owner = share.owner
    for directory in share.directories:
        path = Path(share.path, directory)
        path.mkdir(parents=True, exist_ok=True)
        status = path.stat()
        if (status.st_uid, status.st_gid) != owner:
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
