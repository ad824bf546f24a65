"""A host that shows another key, or one that nobody knows, lets nobody in: with a real sshd.

A machine in the middle takes every login, and lacks the host key alone. Whether somebody logged in
is read from the log of its sshd.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import ssh_machines
import yaml
from ssh_machines import CARELESS
from unpacked_sshd import make_key, why_not
from yard_command import REPOSITORY

from yard.contact.ssh import settings_of
from yard.contact.tunnel import open_tunnel
from yard.core.project import Project
from yard.plays.connections import Connection, read_connections

WHY_NOT = why_not()
pytestmark = [pytest.mark.process, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]
# With each command the host is one that is not reached; exec names the key.
SAID = re.compile("host key|unreachable|cannot be reached|no machine answers: make doctor", re.I)
# Commands that contact the machines of an inventory that was never set up. All that run a playbook
# do so by run_playbook: clean-up stands for verify, status, remove and rotate-keys. Of doctor
# test_doctor.py has it.
COMMANDS = ("bootstrap", "clean-up")
# All other targets that contact machines do so by Ansible, or by one of these.
SSH_OF_OUR_OWN = {
    "yard/contact/ssh.py": "doctor: StrictHostKeyChecking=yes before all else",
    "yard/contact/tunnel.py": "a notebook: the arguments that Ansible has for the host",
    "roles/trainer_image/action_plugins/trainer_image_registry.py": "likewise, built by Ansible",
    "roles/trainer_image/library/trainer_image_pull.py": "node to node: StrictHostKeyChecking=yes",
    "roles/ssh_trust/tasks/rotate.yml": "node to node: StrictHostKeyChecking=yes",
    "node/verbs/log_in.py": "node to node: the settings of role ssh_trust, which are strict",
    "trainer/launch/reports.py": "between containers: node/runs/ssh.py, which is strict",
    "playbooks/bootstrap.yml": "ssh -G, which contacts nobody; keys are shown and asked for",
    "yard/contact/way.py": "commands for people to paste",
}
STARTS_SSH = re.compile(r"""["']ssh["'],\s*(?:\*|["']-)|\[target\.executable|\bssh, -""")
# What switches the check off, or learns a key unseen.
UNCHECKED = re.compile(
    r"StrictHostKeyChecking[= ]\\?(?:no|off|accept-new)|UserKnownHostsFile[= ]/dev/null"
    r"|host_key_checking\s*[:=]\s*(?:false|no|0)|verify_host:\s*(?:false|no)",
    re.IGNORECASE,
)
PRODUCT = ("yard", "node", "roles", "playbooks", "group_vars", "inventory", "trainer", "docker")


@dataclass(frozen=True)
class Site:
    """An inventory of one host.

    Attributes:
        inventory: its file.
        known_hosts: what ssh knows of hosts.
        line: of the host, as it would have to be in there.
        log: of its sshd.
    """

    inventory: Path
    known_hosts: Path
    line: str
    log: Path

    def knows(self, kind: str) -> None:
        """Have ssh know the host's key, another one, or none."""
        other = " ".join([*self.line.split()[:2], make_other_key(self.known_hosts.parent)]) + "\n"
        self.known_hosts.write_text({"right": self.line, "changed": other, "unknown": ""}[kind])

    def logins(self) -> int:
        """How many logins its sshd let in so far."""
        return self.log.read_text(errors="replace").count("Accepted ")

    def make(
        self, *words: str, program: str = "", **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a make target, or another program, without the connections of other commands."""
        venv = (f"--old-file={sys.prefix}/.complete", f"VENV={sys.prefix}")
        return subprocess.run(
            [program, *words]
            if program
            else ["make", *words, *venv, f"INVENTORY={self.inventory}"],
            cwd=REPOSITORY,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )


def make_other_key(folder: Path) -> str:
    """The words of a public key that no machine here has."""
    if not (folder / "other").exists():
        make_key(folder / "other")
    return (folder / "other.pub").read_text().split()[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("keys")
    machine = ssh_machines.start(folder / "machine", make_key(folder / "key"))
    arguments = (
        f"-F none -o UserKnownHostsFile={folder}/known_hosts -o GlobalKnownHostsFile=none "
        f"-o IdentityAgent=none -o IdentitiesOnly=yes"
    )
    host = {
        "ansible_host": "127.0.0.1",
        "ansible_port": machine.port,
        "ansible_user": "ops",
        "ansible_ssh_private_key_file": str(folder / "key"),
        "ansible_ssh_common_args": arguments,
        "ansible_ssh_args": "-o ControlMaster=no",  # no command finds the connection of another
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    inventory = folder / "hosts.yml"
    network = {"cluster_network": "127.0.0.0/8"}
    trainers = {"hosts": {"gpu01": host}, "vars": network}
    inventory.write_text(yaml.safe_dump({"trainers": trainers, "container_hosts": None}))
    yield Site(inventory, folder / "known_hosts", machine.known, folder / "machine/log")
    machine.process.kill()
    machine.process.wait()


@pytest.fixture(scope="module")
def connection(site: Site) -> Connection:
    """The host, as ssh is told to reach it."""
    [found] = read_connections(Project(REPOSITORY), site.inventory).hosts
    return found


@pytest.fixture
def strangers(site: Site) -> tuple[Site, list[Path]]:
    """An inventory of two hosts, of which ssh knows another key, and none; and what ssh knows."""
    document = yaml.safe_load(site.inventory.read_text())
    host = document["trainers"]["hosts"].pop("gpu01")
    files = []
    # One machine, by two of its addresses.
    for number, (kind, address) in enumerate((("changed", "127.0.0.1"), ("unknown", "localhost"))):
        site.knows(kind)
        known = site.known_hosts.with_name(f"known_{kind}")
        # The host's own settings come first.
        known.write_text(site.known_hosts.read_text())
        arguments = f"-o UserKnownHostsFile={known} {host['ansible_ssh_common_args']}"
        document["trainers"]["hosts"][f"gpu0{number + 1}"] = {
            **host,
            "ansible_host": address,
            "cluster_address": f"127.0.0.{number + 1}",
            "ansible_ssh_common_args": arguments,
        }
        files.append(known)
    inventory = site.inventory.with_name("strangers.yml")
    inventory.write_text(yaml.safe_dump(document))
    return replace(site, inventory=inventory), files


def test_the_right_key_lets_in_and_the_inventory_has_the_last_word(
    site: Site, strangers: tuple[Site, list[Path]]
) -> None:
    """Keys are not checked where it says so, as for machines that live for a minute."""
    site.knows("right")
    others, _ = strangers
    right = yaml.safe_load(site.inventory.read_text())["trainers"]["hosts"]["gpu01"]
    document = yaml.safe_load(others.inventory.read_text())
    hosts = document["trainers"]["hosts"]
    hosts["gpu03"] = right
    # It learns the key, in a file that the others do not read.
    own = f"-o UserKnownHostsFile={site.known_hosts.with_name('learnt')}"
    hosts["gpu04"] = {
        **right,
        "ansible_host_key_checking": False,
        "ansible_ssh_common_args": f"{own} {right['ansible_ssh_common_args']}",
    }
    mixed = site.inventory.with_name("mixed.yml")
    mixed.write_text(yaml.safe_dump(document))
    done = replace(site, inventory=mixed).make("exec", "CMD=id -un", **CARELESS)
    let_in = [host for host in hosts if f"{host}\nops\n" in done.stdout]
    assert let_in == ["gpu03", "gpu04"], done.stdout + done.stderr
    assert SAID.search(done.stdout + done.stderr), done.stdout + done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_no_other_key_lets_in(strangers: tuple[Site, list[Path]], command: str) -> None:
    site, files = strangers
    known, before = [file.read_text() for file in files], site.logins()
    done = site.make(command, **CARELESS)
    assert site.logins() == before, done.stdout + done.stderr
    assert [file.read_text() for file in files] == known  # nothing is learnt on the way
    assert SAID.search(done.stdout + done.stderr), done.stdout + done.stderr


def test_no_other_key_lets_plain_ansible_in(strangers: tuple[Site, list[Path]]) -> None:
    site, _ = strangers
    before = site.logins()
    program = str(Path(sys.prefix, "bin/ansible-playbook"))
    done = site.make("-i", str(site.inventory), "playbooks/status.yml", program=program)
    assert done.stdout.count("Host key verification failed") >= 2
    assert site.logins() == before, done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["right", "changed", "unknown"])
def test_a_tunnel_opens_with_the_right_key_alone(
    site: Site, kind: str, connection: Connection
) -> None:
    site.knows(kind)
    before = site.logins()
    settings = settings_of(connection)
    assert not isinstance(settings, str)
    with open_tunnel(connection, settings, 22, stopped=lambda: False) as tunnel:
        assert tunnel.is_open is (kind == "right"), tunnel.words
    assert (site.logins() > before) is (kind == "right")


def test_every_way_in_is_known_and_none_switches_the_check_off() -> None:
    started, unchecked = set(), []
    files = [path for room in PRODUCT for path in (REPOSITORY / room).rglob("*")]
    for path in [*files, REPOSITORY / "ansible.cfg", REPOSITORY / "Makefile"]:
        if path.suffix not in (".py", ".yml", ".cfg", ".j2", ".sh", "") or not path.is_file():
            continue
        text, name = path.read_text(errors="replace"), str(path.relative_to(REPOSITORY))
        if STARTS_SSH.search(text) and path.suffix in (".py", ".yml"):
            started.add(name)
        unchecked += [f"{name}: {found}" for found in UNCHECKED.findall(text)]
    assert started == set(SSH_OF_OUR_OWN)
    assert unchecked == []


def test_what_has_an_ssh_of_its_own_checks_too() -> None:
    """ansible.posix.synchronize switches the check off unless it is told otherwise."""
    found = []
    for file in sorted(REPOSITORY.glob("roles/*/tasks/*.yml")):
        found += [
            (file.name, task)
            for task in _tasks(yaml.safe_load(file.read_text()) or [])
            if "ansible.posix.synchronize" in task
        ]
    assert len(found) >= 6
    for name, task in found:
        here = task.get("delegate_to") == "localhost"
        assert here or task["ansible.posix.synchronize"].get("verify_host") is True, name
        assert here or task["ansible.posix.synchronize"].get("use_ssh_args") is True, name


def _tasks(tasks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for task in tasks:
        yield task
        for part in ("block", "rescue", "always"):
            inner = task.get(part)
            yield from _tasks(inner) if isinstance(inner, list) else ()


def test_what_docs_say_of_libraries_has_its_test() -> None:
    text = (REPOSITORY / "docs/security.md").read_text()
    _, _, table = text.partition("| library | its default |")
    rows = [line for line in table.partition("\n\n")[0].splitlines() if line.startswith("| ")]
    assert len(rows) > 15
    for row in rows[1:]:
        tests = re.findall(r"`(tests/[^`]+)`", row)
        assert tests, row
        assert all((REPOSITORY / test).exists() for test in tests), row


def test_yaml_builds_no_objects() -> None:
    safe = r"BaseLoader|SafeLoader|LOADER"
    for room in PRODUCT:
        for path in (REPOSITORY / room).rglob("*.py"):
            for call in re.findall(r"yaml\.load\(.*", path.read_text()):
                assert re.search(safe, call), f"{path}: {call}"
