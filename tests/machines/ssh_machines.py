"""Machines with a real sshd and a real sudo, each in a mount namespace of its own on this one.

A machine sees this machine's files with its own laid over them: its accounts, its sudoers, its
release. sshd and sudo are those of Debian, unpacked and not installed (unpacked_sshd.py).
"""

import os
import stat
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from unpacked_sshd import free_port, make_key, start_sshd

PASSWORD = "right horse"
# Of that, made with `openssl passwd -6`.
HASH = (
    "$6$doctor$oIJ3cvvPU6PLfkt6tIrqk9IHn8kclicmH3hZGwWr"
    "bHP9lq00GlPR1/C5JBhlLvkI1VOIQpB5L2bz4NECx4.dJ/"
)
DEBIAN_12 = {
    "PRETTY_NAME": "Debian GNU/Linux 12 (bookworm)",
    "ID": "debian",
    "VERSION_CODENAME": "bookworm",
}
# Accounts of every machine, with their login shells. `newcomer` has authorized no key there; the
# .bashrc of `loud` prints.
ACCOUNTS = {
    "sshd": "/usr/sbin/nologin",
    "ops": "/bin/sh",
    "ada": "/bin/sh",
    "guest": "/bin/sh",
    "packager": "/bin/sh",
    "mute": "/usr/sbin/nologin",
    "loud": "/bin/bash",
    "newcomer": "/bin/sh",
}
SUDOERS = """\
root ALL=(ALL) ALL
ops ALL=(ALL) NOPASSWD: ALL
loud ALL=(ALL) NOPASSWD: ALL
newcomer ALL=(ALL) NOPASSWD: ALL
ada ALL=(ALL) ALL
packager ALL=(ALL) NOPASSWD: /usr/bin/apt-get
"""
SSHD = """\
Port {port}
ListenAddress 127.0.0.1
HostKey /etc/ssh/own_key
AuthorizedKeysFile /etc/ssh/authorized_keys.own
StrictModes no
PermitRootLogin yes
KbdInteractiveAuthentication no
MaxStartups 100
PidFile none
"""
# After the lines of a machine, as this goes on to the end of the file.
NEWCOMER = """\
Match User newcomer
AuthorizedKeysFile .ssh/authorized_keys
"""
# What a careless environment has. ansible-runner sets the same where nobody did.
CARELESS = {
    "ANSIBLE_HOST_KEY_CHECKING": "False",
    "ANSIBLE_SSH_HOST_KEY_CHECKING": "False",
    "ANSIBLE_SSH_EXTRA_ARGS": "-o StrictHostKeyChecking=no",
}
START = """\
mount -t tmpfs tmpfs /home
for name in loud newcomer; do
    mkdir /home/$name
    echo 'echo Welcome to the cluster' >/home/$name/.bashrc
    chown -R $name:$name /home/$name
done
$FURTHER
exec /usr/sbin/sshd -D -e -f /etc/ssh/sshd_own
"""


@dataclass(frozen=True)
class Machine:
    """A machine that runs: the port of its sshd, and the line of its host key in known_hosts."""

    port: int
    known: str
    process: "subprocess.Popen[bytes]"


def start(
    folder: Path,
    authorized: str,
    *,
    release: Mapping[str, str] = DEBIAN_12,
    without: Iterable[str] = (),
    programs: Mapping[str, str] | None = None,
    sshd: str = "",
    further: str = "",
) -> Machine:
    """Start a machine.

    Args:
        authorized: the public key that lets everybody in there, but for `newcomer`.
        without: files that it lacks, below /usr.
        programs: shell scripts in place of files, below /usr.
        sshd: further lines of its sshd_config.
        further: a shell command before sshd starts.
    """
    port = free_port()
    etc, usr = folder / "etc", folder / "usr"
    (etc / "ssh").mkdir(parents=True)
    usr.mkdir()
    key = etc / "ssh/own_key"
    make_key(key)
    (etc / "ssh/sshd_own").write_text(SSHD.format(port=port) + sshd + NEWCOMER)
    (etc / "ssh/authorized_keys.own").write_text(authorized)
    (etc / "os-release").write_text("".join(f'{key}="{text}"\n' for key, text in release.items()))
    _accounts(etc)
    for name in without:
        gone = usr / name
        gone.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(gone, stat.S_IFCHR)  # how overlayfs knows that a file is gone
    for name, script in (programs or {}).items():
        program = usr / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(script)
        program.chmod(0o755)
    process = start_sshd(folder, START.replace("$FURTHER", further), port, folder / "log")
    kind, public = key.with_name("own_key.pub").read_text().split()[:2]
    return Machine(port, f"[127.0.0.1]:{port} {kind} {public}\n", process)


def _accounts(etc: Path) -> None:
    lines: dict[str, list[str]] = {"passwd": [], "shadow": [], "group": []}
    for number, (name, shell) in enumerate(ACCOUNTS.items(), 64000):
        home = f"/home/{name}" if name in ("loud", "newcomer") else "/"
        lines["passwd"].append(f"{name}:x:{number}:{number}::{home}:{shell}\n")
        lines["shadow"].append(f"{name}:{HASH}:19000:0:99999:7:::\n")
        lines["group"].append(f"{name}:x:{number}:\n")
    for file, own in lines.items():
        there = Path("/etc", file).read_text().splitlines(keepends=True)
        kept = [line for line in there if line.partition(":")[0] not in ACCOUNTS]
        (etc / file).write_text("".join([*kept, *own]))
        (etc / file).chmod(0o640 if file == "shadow" else 0o644)
    (etc / "sudoers").write_text(SUDOERS)
    (etc / "sudoers").chmod(0o440)
