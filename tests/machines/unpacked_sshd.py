"""Debian's sshd, unpacked by playbooks/test_tools.yml and not installed, run in mount namespaces.

A shell that starts one sees this machine's files with those of the packages, and with the test's
own, laid over them. Nothing of it is seen outside, and it ends with the process that started it.
"""

import os
import socket
import subprocess
import time
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PACKAGES = REPOSITORY / ".trainyard/test_tools/packages"
# $OWN has usr/ and etc/, the test's own files.
OVERLAYS = """\
set -e
mount -t overlay overlay -o "lowerdir=$OWN/usr:$PACKAGES/usr:/usr" /usr
mount -t overlay overlay -o "lowerdir=$OWN/etc:$PACKAGES/etc:/etc" /etc
mount -t tmpfs tmpfs /run
mkdir /run/sshd
"""


def why_not() -> str:
    """Why no such sshd can be started here; empty where one can."""
    if os.geteuid() != 0:
        return "only root may mount, and log in as others"
    if not (PACKAGES / "usr/sbin/sshd").is_file():
        return "playbooks/test_tools.yml has not unpacked sshd"
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True)
    return "" if tried.returncode == 0 else "no mount namespaces here"


def start_sshd(own: Path, commands: str, port: int, log: Path) -> "subprocess.Popen[bytes]":
    """Start an sshd, and wait until it takes connections.

    Args:
        own: a folder with usr/ and etc/.
        commands: of a shell, the last one `exec /usr/sbin/sshd -D -e ...`.
        port: on which it is to listen.
        log: what it writes goes there.

    Raises:
        AssertionError: it ended, or does not listen within 10 s; the text is what it wrote.
    """
    with log.open("wb") as file:
        process = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL"),
                *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
                *("sh", "-c", OVERLAYS + commands),
            ],
            env={"PATH": "/usr/sbin:/usr/bin", "OWN": str(own), "PACKAGES": str(PACKAGES)},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    deadline = time.monotonic() + 10
    while not listens(port):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return process


def make_key(path: Path, passphrase: str = "", kind: str = "ed25519") -> str:
    """Make a key pair; returns the public key."""
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "", "-f", str(path)],
        check=True,
    )
    return path.with_name(f"{path.name}.pub").read_text()


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def listens(port: int) -> bool:
    """Whether a program takes connections on a port."""
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
