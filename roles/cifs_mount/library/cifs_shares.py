#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: the CIFS shares of a machine, tried before fstab is touched."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: cifs_shares
short_description: Mounts CIFS shares, and takes those away that are no longer wanted
description:
  - Brings credentials files, the role's block of fstab, mount points and mounts to what is asked.
    A share that is new or changed is mounted on the side first; one that fails ends the module with
    cause and remedy before anything is changed.
  - A share that is to go, or to change, must not be in use; the error names who holds it.
author: Trainyard
options:
  shares:
    description: The shares, without their passwords; the role's README has the keys.
    type: list
    elements: dict
    required: true
  passwords:
    description: The passwords of the shares, in the same order.
    type: list
    elements: raw
    required: true
  uid:
    description: User that files belong to where a share does not say.
    type: str
    default: "0"
  gid:
    description: Group that files belong to where a share does not say.
    type: str
    default: "0"
  seconds:
    description: How long a mount may take.
    type: int
    default: 20
  only_validate:
    description: Look for mistakes in what is asked, and do no more.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Mount the shares
  cifs_shares:
    shares: [{src: //nas/training, path: /srv/share, username: trainer}]
    passwords: ["{{ vaulted_password }}"]
"""

RETURN = r"""
done:
  description: What was changed, or would be.
  returned: always
  type: list
  elements: str
"""

import errno
import grp
import os
import pwd
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import RawIOBase
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.cifs_cause import no_connection, no_mount
from ansible.module_utils.cifs_share import (
    CREDENTIALS,
    Share,
    join_fstab,
    mount_points,
    path_of_credentials,
    problems,
    split_fstab,
)

FSTAB = Path("/etc/fstab")
# Mount points that were made here, and go again with the share.
MADE = Path("/var/lib/trainyard/cifs_mount")
CONNECT_SECONDS = 5
# A mount that fails five times within ten seconds would end its automount for good, and programs
# that look for their files do that while the server restarts.
PATIENCE = "# Ansible, role cifs_mount\n[Unit]\nStartLimitIntervalSec=0\n"
# umount waits for what is not written yet; a dead server makes it wait for its own limits.
STOP_SECONDS = 90


class Refused(Exception):
    """What ends the module: sentences for people."""


def run(*command: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a command without a message catalogue; TimeoutExpired after some seconds."""
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


def read_shares(params: dict[str, Any]) -> tuple[list[Share], list[str]]:
    """The shares as they were given, with their passwords; and what is wrong with those."""
    shares, wrong = [], []
    for number, (given, password) in enumerate(
        zip(params["shares"], params["passwords"], strict=True), start=1
    ):
        if not isinstance(password, str):
            wrong.append(
                f"share {number} ({given.get('src')}): password must be a text. Put it in quotes: "
                "YAML takes 0123 for a number, and yes for a truth."
            )
            password = "unknown"
        filled = {"uid": params["uid"], "gid": params["gid"], **given}
        texts = {
            name: str(value)
            for name, value in filled.items()
            if name not in NOT_TEXT and value is not None
        }
        shares.append(
            Share(
                **texts,
                password=password,
                seal=bool(given.get("seal", False)),
                automount=bool(given.get("automount", True)),
                directories=tuple(given.get("directories", ())),
                options=tuple(map(str, given.get("options", ()))),
            )
        )
    return shares, wrong


NOT_TEXT = ("seal", "automount", "directories", "options")


def number_of(name: str, what: str, look_up: Callable[[str], int]) -> int:
    """The number of a user or group; Refused if there is none of that name."""
    if name.isdigit():
        return int(name)
    try:
        return look_up(name)
    except KeyError:
        raise Refused(
            f"this node has no {what} {name}. Make it with role accounts, or give its number."
        ) from None


def owners(share: Share) -> tuple[int, int]:
    """The numbers of the user and group that files of a share belong to."""
    return (
        number_of(share.uid, "user", lambda name: pwd.getpwnam(name).pw_uid),
        number_of(share.gid, "group", lambda name: grp.getgrnam(name).gr_gid),
    )


def mounted_types(path: str) -> list[str]:
    """The file systems on a mount point, the topmost last."""
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [line[line.index("-") + 1] for line in lines if line[4] == path]


def unit(path: str, kind: str) -> str:
    """The name of systemd's unit for a mount point."""
    return run("systemd-escape", "--path", f"--suffix={kind}", path).stdout.strip()


def patience_file(path: str) -> Path:
    """The addition to systemd's unit of a mount point."""
    return Path("/etc/systemd/system", f"{unit(path, 'mount')}.d", "cifs_mount.conf")


def hidden_files(shares: Sequence[Share]) -> Iterator[str]:
    """Find mount points that are no directories, or hold files which the share would hide."""
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
    """Find mount points that something else is mounted on."""
    for share in shares:
        there = [kind for kind in mounted_types(share.path) if kind != "autofs"]
        if there and share.path not in ours:
            yield (
                f"{share.path} is mounted already ({there[-1]}), and not by this role. Unmount it: "
                f"umount {share.path}"
            )


def kernel_has_cifs() -> bool:
    """Whether the kernel knows CIFS, or has a module to load."""
    if "\tcifs\n" in Path("/proc/filesystems").read_text():
        return True
    modprobe = shutil.which("modprobe", path="/usr/sbin:/sbin:/usr/bin:/bin")
    return modprobe is not None and run(modprobe, "--dry-run", "--quiet", "cifs").returncode == 0


def connection_trouble(share: Share) -> str:
    """Why the server cannot be reached, or the empty string."""
    try:
        socket.create_connection((share.host, share.port), CONNECT_SECONDS).close()
    except OSError as error:
        return str(no_connection(share, error))
    return ""


def mount_trouble(share: Share, seconds: int) -> str:
    """Mount a share on the side for a moment; why that fails, or the empty string."""
    with open("/dev/kmsg", "rb", buffering=0, opener=not_waiting) as log:
        log.seek(0, os.SEEK_END)
        output = mounted_on_the_side(share, seconds)
        if output is None:
            return ""
        kernel = list(kernel_lines(log))
    root = "/".join(share.src.split("/")[:4])
    # An error says the same of a share and of a folder in it.
    without_folder = (
        root != share.src
        and f"({errno.ENOENT})" in output
        and mounted_on_the_side(replace(share, src=root), seconds) is None
    )
    return str(no_mount(share, output, kernel, without_folder))


def mounted_on_the_side(share: Share, seconds: int) -> str | None:
    """What mount.cifs says; nothing when the limit ended it, and None when the mount worked."""
    uid, gid = owners(share)
    with tempfile.TemporaryDirectory(prefix="cifs_mount.", dir="/run") as directory:
        credentials = Path(directory, "credentials")
        write_credentials(credentials, share)
        point = Path(directory, "mount")
        point.mkdir(mode=0o700)
        options = share.mount_options(uid, gid, credentials)
        try:
            tried = run(
                "mount", "-t", "cifs", "-o", options, share.src, str(point), seconds=seconds
            )
        except subprocess.TimeoutExpired:
            return ""
        if tried.returncode:
            return tried.stdout.strip()
        run("umount", str(point), seconds=seconds)
    return None


def not_waiting(path: str, flags: int) -> int:
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


def write_credentials(path: Path, share: Share) -> None:
    """Write user and password where root alone reads them, as one and never for others to see."""
    handle, name = tempfile.mkstemp(dir=path.parent)  # mode 0600
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
        file.write(share.credentials_text())
    os.replace(name, path)


def credentials_as_wanted(share: Share) -> bool:
    """Whether the credentials file says what it has to."""
    try:
        there = share.credentials.read_text(encoding="utf-8", errors="replace")
        return bool(there == share.credentials_text())
    except FileNotFoundError:
        return False


def holders(path: str) -> list[str]:
    """The processes that use a mount point."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        links = [process / "cwd", process / "root", process / "exe"]
        try:
            links += list((process / "fd").iterdir())
            targets = [os.readlink(link) for link in links]
            name = (process / "comm").read_text().strip()
            owner = process.stat().st_uid
        except OSError:  # it ended meanwhile, or is the kernel's
            continue
        if any(f"{target}/".startswith(f"{path}/") for target in targets):
            try:
                user = pwd.getpwuid(owner).pw_name
            except KeyError:
                user = str(owner)
            found.append(f"{name} (process {process.name} of {user})")
    return found


def refuse_busy(paths: Sequence[str]) -> None:
    """Refuse to go on while somebody uses what has to be unmounted."""
    busy = {path: holders(path) for path in paths if "cifs" in mounted_types(path)}
    troubles = [
        f"{path} has to be unmounted and is in use by {', '.join(users)}. End them, or run this "
        "again when they are done."
        for path, users in busy.items()
        if users
    ]
    if troubles:
        raise Refused(*troubles)


def stop(path: str) -> None:
    """Unmount a share, and stop waiting for somebody to look at it."""
    # The trigger last: where the share cannot be unmounted, all stays as it was.
    for kind in ("mount", "automount"):
        stopped = run("systemctl", "stop", unit(path, kind), seconds=STOP_SECONDS)
        if kind == "mount" and "cifs" in mounted_types(path):
            users = ", ".join(holders(path)) or "a process that could not be found"
            raise Refused(
                f"{path} cannot be unmounted, it is in use by {users}. End them, or run this "
                f"again when they are done. ({stopped.stdout.strip()})"
            )
    if mounted_types(path):
        raise Refused(f"{path} is still mounted: {', '.join(mounted_types(path))}.")


def start(share: Share) -> None:
    """Mount a share the way that a boot does."""
    name = unit(share.path, "automount" if share.automount else "mount")
    run("systemctl", "reset-failed", name, unit(share.path, "mount"))
    started = run("systemctl", "start", name, seconds=STOP_SECONDS)
    look = run("ls", share.path, seconds=STOP_SECONDS)
    if started.returncode or look.returncode or "cifs" not in mounted_types(share.path):
        journal = run(
            "journalctl", "--unit", unit(share.path, "mount"), "--lines=5", "--output=cat"
        )
        raise Refused(
            f"{share.src} could be mounted on the side, but not at {share.path}: "
            f"{' '.join((started.stdout + look.stdout + journal.stdout).split())}"
        )


def missing_directories(share: Share) -> list[Path]:
    """Directories that the share has to have and has not."""
    return [
        path
        for path in (Path(share.path, directory) for directory in share.directories)
        if not path.is_dir()
    ]


def make_directories(share: Share) -> None:
    """Make the directories, and see that they belong to whom they should, who can write there."""
    uid, gid = owners(share)
    for path in missing_directories(share):
        path.mkdir(parents=True, exist_ok=True)
    for directory in share.directories:
        path = Path(share.path, directory)
        status = path.stat()
        if (status.st_uid, status.st_gid) != (uid, gid):
            raise Refused(
                f"{path} belongs to {status.st_uid}:{status.st_gid}, not to {uid}:{gid}: the "
                'server decides who owns files. Add "forceuid" and "forcegid" to the options of '
                f"{share.src}."
            )
        trial = path / f".cifs_mount.{socket.gethostname()}"
        written = subprocess.run(
            ["/bin/sh", "-c", 'echo written > "$0" && rm "$0"', str(trial)],
            user=uid,
            group=gid,
            extra_groups=[],
            capture_output=True,
            check=False,
        )
        if written.returncode:
            raise Refused(
                f"user {uid} cannot write into {path}: {written.stderr.decode().strip()}. Give "
                f"{share.username} the right on the server, and the directory a mode that allows "
                f"it ({share.dir_mode} now)."
            )


class Machine:
    """What the machine has, and the steps to what is asked."""

    def __init__(self, module: AnsibleModule, shares: Sequence[Share]) -> None:
        self.module = module
        self.shares = shares
        self.text = FSTAB.read_text() if FSTAB.exists() else ""
        lines, self.others = split_fstab(self.text)
        self.ours = mount_points(lines)
        self.done: list[str] = []
        self.reload = False

    def validate(self, wrong: Sequence[str]) -> None:
        """Refuse what cannot work, with what was found before; nothing is touched until here."""
        found = [*wrong, *problems(self.shares, mount_points(self.others))]
        if not found:
            found = [
                *hidden_files(self.shares),
                # One whose line somebody took out of fstab still has its credentials.
                *foreign_mounts(self.shares, {*self.ours, *recorded_credentials()}),
            ]
        if self.shares and not Path("/run/systemd/system").is_dir():
            found.append("this node does not run systemd, which mounts the shares at boot.")
        if self.shares and not kernel_has_cifs():
            found.append(
                f"the kernel of this node ({os.uname().release}) has no CIFS. Install the package "
                "with its modules: on Ubuntu, linux-modules-extra-$(uname -r). A container uses "
                "the kernel of its host and cannot mount shares itself."
            )
        found += self.unknown_owners()
        if found:
            raise Refused(*found)

    def unknown_owners(self) -> list[str]:
        """Owners that this node does not have. In a dry run the role accounts has not made them."""
        found = []
        for share in self.shares:
            try:
                owners(share)
            except Refused as refusal:
                found.append(f"{share.src}: {refusal.args[0]}")
        if self.module.check_mode:
            for warning in found:
                self.module.warn(warning)
            return []
        return found

    def bring_about(self) -> None:
        """Do what is missing."""
        seconds = self.module.params["seconds"]
        check = self.module.check_mode
        unresolved = check and self.unresolvable()
        lines = {
            share.path: "" if unresolved else share.fstab_line(*owners(share), seconds)
            for share in self.shares
        }
        kept = [share for share in self.shares if self.ours.get(share.path) == lines[share.path]]
        right = [share for share in kept if credentials_as_wanted(share)]
        standing = [share for share in right if "cifs" in mounted_types(share.path)]
        wanted = set(lines)
        left = sorted((set(self.ours) | set(recorded_credentials())) - wanted)
        changed = [share for share in self.shares if share not in right]

        # The trial: what was not mounted just so must be shown to work before it is written down.
        self.try_shares([share for share in self.shares if share not in standing], seconds)
        self.done += [f"{share.src} at {share.path}" for share in changed]
        self.done += [f"{path} removed" for path in left]
        if check:
            self.check_rest(kept)
            return

        to_stop = [path for path in [*left, *(s.path for s in changed)] if mounted_types(path)]
        refuse_busy(to_stop)
        for path in to_stop:
            stop(path)
        for share in changed:
            CREDENTIALS.mkdir(mode=0o700, exist_ok=True)
            write_credentials(share.credentials, share)
        self.tidy_credentials(left)
        self.write_units(left)
        self.write_fstab([lines[share.path] for share in self.shares])
        for share in self.shares:
            self.make_point(share.path)
        for share in self.shares:
            if not self.active(share):
                start(share)
                if share not in changed:
                    self.done.append(f"{share.path} mounted")
            missing = missing_directories(share)
            self.done += [f"{path} made" for path in missing]
            make_directories(share)
        for path in left:
            self.remove_point(path)

    def unresolvable(self) -> bool:
        """Whether an owner of a share is not there yet."""
        try:
            for share in self.shares:
                owners(share)
        except Refused:
            return True
        return False

    def check_rest(self, kept: Sequence[Share]) -> None:
        """Note what else would change, for a dry run."""
        for share in kept:
            if not self.active(share):
                self.done.append(f"{share.path} mounted")
            elif "cifs" in mounted_types(share.path):
                self.done += [f"{path} made" for path in missing_directories(share)]

    def active(self, share: Share) -> bool:
        """Whether a share is mounted, or will be when somebody looks at it."""
        return ("autofs" if share.automount else "cifs") in mounted_types(share.path)

    def try_shares(self, shares: Sequence[Share], seconds: int) -> None:
        """Mount shares on the side; Refused with everything that fails."""
        with ThreadPoolExecutor(8) as pool:
            troubles = list(pool.map(connection_trouble, shares))
        if not self.module.check_mode:
            troubles = [
                trouble or mount_trouble(share, seconds)
                for share, trouble in zip(shares, troubles, strict=True)
            ]
        if any(troubles):
            raise Refused(*filter(None, troubles))

    def tidy_credentials(self, left: Sequence[str]) -> None:
        """Remove credentials of shares that left; give the others the rights they must have."""
        for path in left:
            replace(EMPTY, path=path).credentials.unlink(missing_ok=True)
        if not CREDENTIALS.is_dir():
            return
        if not self.shares:
            CREDENTIALS.rmdir()
            return
        for path, mode in [
            (CREDENTIALS, 0o700),
            *((share.credentials, 0o600) for share in self.shares),
        ]:
            status = path.stat()
            if (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) != (mode, 0, 0):
                os.chown(path, 0, 0)
                path.chmod(mode)
                self.done.append(f"mode of {path}")

    def write_units(self, left: Sequence[str]) -> None:
        """Let systemd try a mount as often as somebody asks; remove that for shares that left."""
        for share in self.shares:
            file = patience_file(share.path)
            if not file.exists() or file.read_text() != PATIENCE:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(PATIENCE)
                self.done.append(str(file))
                self.reload = True
        for path in left:
            file = patience_file(path)
            if file.exists():
                file.unlink()
                file.parent.rmdir()
                self.reload = True

    def write_fstab(self, lines: Sequence[str]) -> None:
        """Write the role's block, if it is another one, and let systemd read what changed."""
        text = join_fstab(lines, self.others) if lines or self.ours else self.text
        if text != self.text:
            with tempfile.NamedTemporaryFile("w", dir=self.module.tmpdir, delete=False) as file:
                file.write(text)
            os.chmod(file.name, 0o644)
            self.module.atomic_move(file.name, str(FSTAB))
            if not self.done:
                self.done.append(str(FSTAB))
            self.reload = True
        if self.reload:
            run("systemctl", "daemon-reload")

    def make_point(self, path: str) -> None:
        """Make a mount point, and note that it was made."""
        missing = [
            parent for parent in [*reversed(Path(path).parents), Path(path)] if not parent.exists()
        ]
        if not missing:
            return
        MADE.parent.mkdir(parents=True, exist_ok=True)
        with MADE.open("a") as record:
            record.writelines(f"{directory}\n" for directory in missing)
        Path(path).mkdir(parents=True)

    def remove_point(self, path: str) -> None:
        """Remove a mount point that was made here, and what was made above it, once empty."""
        recorded = MADE.read_text().splitlines() if MADE.exists() else []
        for directory in [Path(path), *Path(path).parents]:
            if str(directory) in recorded:
                try:
                    directory.rmdir()
                except OSError:
                    return
                recorded.remove(str(directory))
        if recorded:
            MADE.write_text("".join(f"{directory}\n" for directory in recorded))
        else:
            MADE.unlink(missing_ok=True)
            if MADE.parent.is_dir() and not any(MADE.parent.iterdir()):
                MADE.parent.rmdir()


EMPTY = Share(src="", path="/", username="", password="")


def recorded_credentials() -> list[str]:
    """The mount points that have credentials."""
    if not CREDENTIALS.is_dir():
        return []
    return [path_of_credentials(file.name) for file in CREDENTIALS.iterdir()]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "shares": {"type": "list", "elements": "dict", "required": True},
            # Apart from the shares: what is hidden as a whole can be quoted in no way.
            "passwords": {"type": "list", "elements": "raw", "required": True, "no_log": True},
            "uid": {"type": "str", "default": "0"},
            "gid": {"type": "str", "default": "0"},
            "seconds": {"type": "int", "default": 20},
            "only_validate": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        shares, wrong = read_shares(module.params)
        machine = Machine(module, shares)
        machine.validate(wrong)
        if not module.params["only_validate"]:
            machine.bring_about()
    except Refused as refusal:
        module.fail_json(msg="\n".join(["cifs_mount:", *refusal.args]))
    module.exit_json(changed=bool(machine.done), done=machine.done)


if __name__ == "__main__":
    main()
