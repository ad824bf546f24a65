# Copyright Trainyard. Apache-2.0
"""systemd's units of the mount points: starting and stopping them, and what is added to them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ansible.module_utils.cifs_mount_command import Refused, run
from ansible.module_utils.cifs_mount_mounted import holders, is_mounted, mounted_types
from ansible.module_utils.cifs_mount_share import Share

UNITS = Path("/etc/systemd/system")
# A mount that fails five times within ten seconds would end its automount for good, and programs
# that look for their files do that while the server restarts.
PATIENCE = "# Ansible, role cifs_mount\n[Unit]\nStartLimitIntervalSec=0\n"
# umount waits for what is not written yet; a dead server makes it wait for its own limits.
STOP_SECONDS = 90


def unit_name(path: str, kind: str) -> str:
    """The name of systemd's unit for a mount point.

    Args:
        kind: `mount` or `automount`.
    """
    return str(run("systemd-escape", "--path", f"--suffix={kind}", path).stdout).strip()


def add_patience(path: str) -> Path | None:
    """Let systemd try a mount as often as somebody asks; the file, where it was not so already."""
    file = _patience_file(path)
    if file.exists() and file.read_text() == PATIENCE:
        return None
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(PATIENCE)
    return file


def remove_patience(path: str) -> bool:
    """Undo `add_patience`; whether there was anything to undo."""
    file = _patience_file(path)
    if not file.exists():
        return False
    file.unlink()
    with suppress(OSError):  # others have drop-ins in it, too
        file.parent.rmdir()
    return True


def reload_systemd() -> None:
    """Let systemd read fstab and its units anew."""
    run("systemctl", "daemon-reload")


def start_share(share: Share) -> None:
    """Mount a share the way that a boot does.

    Raises:
        Refused: that fails.
        subprocess.TimeoutExpired: a command takes longer than STOP_SECONDS.
    """
    mount = unit_name(share.path, "mount")
    name = unit_name(share.path, "automount") if share.automount else mount
    run("systemctl", "reset-failed", name, mount)
    started = run("systemctl", "start", name, seconds=STOP_SECONDS)
    listing = run("ls", share.path, seconds=STOP_SECONDS)
    if started.returncode or listing.returncode or not is_mounted(share.path):
        journal = run("journalctl", "--unit", mount, "--lines=5", "--output=cat")
        raise Refused(
            f"{share.src} could be mounted on the side, but not at {share.path}: "
            f"{' '.join((started.stdout + listing.stdout + journal.stdout).split())}"
        )


def stop_share(path: str) -> None:
    """Unmount a share and end its automount.

    Raises:
        Refused: it is in use.
        subprocess.TimeoutExpired: that takes longer than STOP_SECONDS.
    """
    # The automount last: where the share cannot be unmounted, all stays as it was.
    for kind in ("mount", "automount"):
        stopped = run("systemctl", "stop", unit_name(path, kind), seconds=STOP_SECONDS)
        if kind == "mount" and is_mounted(path):
            users = ", ".join(map(str, holders(path))) or "a process that could not be found"
            raise Refused(
                f"{path} cannot be unmounted, it is in use by {users}. End them, or run this "
                f"again when they are done. ({stopped.stdout.strip()})"
            )
    if mounted_types(path):
        raise Refused(f"{path} is still mounted: {', '.join(mounted_types(path))}.")


def _patience_file(path: str) -> Path:
    return UNITS / f"{unit_name(path, 'mount')}.d" / "cifs_mount.conf"
