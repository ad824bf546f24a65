"""`make bootstrap` on a machine that has nothing but root by password: a real sshd and sudo.

apt-get is a stand-in there: the machine has no packages of its own.
"""

import os
import pty
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import ssh_machines
import yaml
from ssh_machines import HASH, PASSWORD, Machine
from unpacked_sshd import make_key, why_not
from yard_command import REPOSITORY, made

WHY_NOT = why_not()
pytestmark = [pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT), pytest.mark.process]
PLAYBOOK = "playbooks/bootstrap.yml"
ACCOUNT = "pilot"
QUESTIONS = (b"to pin them here", b"Password of root on the machines")
# /etc and /usr can be written there, in memory.
WRITABLE = """
mount -t tmpfs tmpfs /mnt
for tree in etc usr; do
    mkdir -p /mnt/$tree /mnt/work/$tree
    mount -t overlay overlay -o "lowerdir=/$tree,upperdir=/mnt/$tree,workdir=/mnt/work/$tree" /$tree
done
mount -t tmpfs tmpfs /root
sed -i 's|^root:[^:]*:|root:HASH:|' /etc/shadow
echo '@includedir /etc/sudoers.d' >>/etc/sudoers
""".replace("HASH", HASH)
APT_GET = """#!/bin/sh
case "$*" in
*install*python3*) ln -s "$(ls /usr/bin/python3.[0-9]* | head -n 1)" /usr/bin/python3 ;;
esac
"""


@dataclass(frozen=True)
class Site:
    """The machine, and what this side has."""

    folder: Path
    machine: Machine

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    def bootstrap(self, answers: str, **environment: str) -> tuple[int, str]:
        """Run `make bootstrap` on a terminal of its own, and type answers; return its output."""
        terminal, theirs = pty.openpty()
        process = subprocess.Popen(
            [
                *("setsid", "--ctty", "--wait"),
                # The environment of this Python as it is.
                *("make", f"--old-file={sys.prefix}/.complete", f"VENV={sys.prefix}"),
                *("bootstrap", f"INVENTORY={self.folder}/site"),
            ],
            cwd=REPOSITORY,
            env={
                **{k: v for k, v in os.environ.items() if k != "TRAINYARD_ROOT_PASSWORD"},
                "HOME": str(self.folder / "home"),
                "ANSIBLE_NOCOLOR": "1",
                **environment,
            },
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        said, waiting = b"", answers.splitlines()
        asked = 0
        while True:
            try:
                said += os.read(terminal, 65536)
            except OSError:  # the other end is closed
                break
            if waiting and sum(map(said.count, QUESTIONS)) > asked:
                asked += 1
                # Until it reads: by then it has thrown away what was typed before.
                patience = time.monotonic() + 60
                while termios.tcgetattr(terminal)[3] & termios.ICANON:
                    assert time.monotonic() < patience, said
                    time.sleep(0.05)
                time.sleep(0.3)
                os.write(terminal, waiting.pop(0).encode() + b"\r")
        os.close(terminal)
        return process.wait(), said.decode(errors="replace")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("bootstrap")
    (folder / "home/.ssh").mkdir(parents=True)
    make_key(folder / "home/.ssh/id_ed25519")
    machine = ssh_machines.start(
        folder / "machine",
        "",
        without=["bin/python3"],
        programs={"bin/apt-get": APT_GET},
        sshd=f"PasswordAuthentication yes\nMatch User {ACCOUNT}\n"
        "AuthorizedKeysFile .ssh/authorized_keys\n",
        further=WRITABLE,
    )
    site = Site(folder, machine)
    (folder / "config").write_text(
        f"UserKnownHostsFile {site.known_hosts}\nGlobalKnownHostsFile none\n"
        f"IdentitiesOnly yes\nIdentityFile {folder}/home/.ssh/id_ed25519\nIdentityAgent none\n"
    )
    host = {
        "ansible_host": "127.0.0.1",
        "ansible_port": machine.port,
        "ansible_user": ACCOUNT,
        "ansible_ssh_common_args": f"-F {folder}/config",
    }
    (folder / "site").mkdir()
    (folder / "site/hosts.yml").write_text(yaml.safe_dump({"trainers": {"hosts": {"gpu01": host}}}))
    yield site
    machine.process.kill()
    machine.process.wait()


def logs_in(site: Site) -> bool:
    """Whether the account is let in with the key, and becomes root."""
    done = subprocess.run(
        [
            *("ssh", "-F", str(site.folder / "config"), "-o", "BatchMode=yes"),
            *("-p", str(site.machine.port), f"{ACCOUNT}@127.0.0.1", "sudo -n id -un; python3 -V"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.startswith("root\nPython 3")


@pytest.mark.promise("make bootstrap")
def test_from_roots_password_to_an_account_with_a_key(site: Site) -> None:
    # Whoever does not say yes gets no key pinned, and nothing is done.
    status, said = site.bootstrap("no\n", TRAINYARD_ROOT_PASSWORD=PASSWORD)
    assert status != 0
    assert "The answer was not yes, and nothing was changed" in " ".join(said.split()), said
    assert not site.known_hosts.exists()

    status, said = site.bootstrap(f"yes\n{PASSWORD}\n")
    assert status == 0, said
    fingerprint = subprocess.run(
        ["ssh-keygen", "-lf", site.folder / "machine/etc/ssh/own_key.pub"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()[1]
    assert f"gpu01: {fingerprint} (ED25519)" in said
    assert site.known_hosts.read_text() == site.machine.known
    assert "make doctor" in said
    assert PASSWORD not in said
    assert logs_in(site)

    # A second run asks nothing, with the password from the environment, and changes nothing.
    status, said = site.bootstrap("", TRAINYARD_ROOT_PASSWORD=PASSWORD)
    assert status == 0, said
    assert "changed=0" in said
    assert PASSWORD not in said


def test_a_wrong_password_is_said(site: Site) -> None:
    site.known_hosts.write_text(site.machine.known)
    alone = "-o ControlMaster=no -o ControlPath=none"  # not over a connection of the test before
    status, said = site.bootstrap("", TRAINYARD_ROOT_PASSWORD="wrong horse", ANSIBLE_SSH_ARGS=alone)
    assert status != 0
    assert "Permission denied" in said or "Invalid/incorrect password" in said, said
    assert "wrong horse" not in said
    words = " ".join(said.split())
    assert "root could not log in on gpu01: " in words, said
    assert "Was the password right? On its console `passwd root` sets one" in words


def test_the_target_of_make() -> None:
    assert made("bootstrap").endswith(f" {PLAYBOOK}")
