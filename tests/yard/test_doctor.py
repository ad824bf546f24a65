"""What `make doctor` says of mistakes that people make before the first set-up.

All of them are made in one inventory, whose hosts are machines with a real sshd and a real sudo
(`ssh_machines`), and asked about once. What is a stand-in is said where it stands.
"""

import configparser
import json
import os
import shutil
import socket
import string
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import ssh_machines
import yaml
from ssh_machines import CARELESS, PASSWORD, Machine
from unpacked_sshd import make_key, why_not
from yard_command import REPOSITORY, Yard

from yard.contact.causes import Trouble, code_of, load_causes
from yard.contact.here import check_here
from yard.contact.host_keys import HostKey
from yard.contact.ssh import ASKPASS, Answer, Settings, parse_settings, settings_of
from yard.contact.way import trouble_at
from yard.core.project import Project
from yard.operations.first_contact import InventoryFiles, ask_hosts
from yard.plays.connections import Connection, read_connections

WHY_NOT = why_not()
machines = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
BULLSEYE = {
    "PRETTY_NAME": "Debian GNU/Linux 11 (bullseye)",
    "ID": "debian",
    "VERSION_CODENAME": "bullseye",
}
# What a checkout of the tests has from this one.
SHARED = (
    *("Makefile", "ansible.cfg", "bootstrap.sh", "group_vars", "playbooks", "pyproject.toml"),
    *("requirements.txt", "roles", "site.yml"),
)
# Passwords that must be seen nowhere.
WRONG_PASSWORD = "wrong horse"


@dataclass(frozen=True)
class Asked:
    """One `yard doctor` for all hosts: its status, its JSON, how long it took, what it left."""

    status: int
    output: str
    errors: str
    seconds: float
    known_hosts_kept: bool
    passwords_seen: tuple[str, ...]

    def host(self, name: str) -> dict[str, Any]:
        """What it says of a host."""
        [found] = [host for host in json.loads(self.output)["hosts"] if host["host"] == name]
        return dict(found)

    def trouble(self, name: str) -> dict[str, Any]:
        """What is wrong with a host."""
        found = self.host(name)["trouble"]
        assert found is not None, f"{name} is fit: {self.host(name)}"
        return dict(found)


@dataclass(frozen=True)
class Site:
    """A checkout, the machines, and an inventory of hosts that each have one mistake."""

    folder: Path
    checkout: Path
    plain: Machine
    known_hosts: Path
    key: Path
    config: Path

    @property
    def inventory(self) -> Path:
        return self.folder / "site"

    def inventory_of(self, name: str, **hosts: Mapping[str, Any]) -> Path:
        """Write another inventory, in which each host has an address of its own."""
        folder = self.folder / name
        folder.mkdir()
        trainers = {
            "hosts": {
                host: {**variables, "ansible_host": host, "cluster_address": f"10.0.0.{number}"}
                for number, (host, variables) in enumerate(hosts.items(), start=1)
            },
            "vars": {
                "cluster_network": "10.0.0.0/24",
                "ansible_ssh_extra_args": "-o HostName=127.0.0.1",
            },
        }
        (folder / "hosts.yml").write_text(yaml.safe_dump({"trainers": trainers}))
        return folder

    def plain_host(self, **changes: Any) -> dict[str, Any]:
        """Variables with which the plain machine is reached as root."""
        return {**reached(self.plain.port, self.config), **changes}

    @property
    def home(self) -> Path:
        """The home of the user here. ssh itself looks elsewhere: where the system says."""
        return self.folder / "home"

    def yard(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        yard = Yard(self.checkout)
        yard.environment |= {"HOME": str(self.home), **environment}
        return yard(*arguments)


def reached(port: int, config: Path, further: str = "", **changes: Any) -> dict[str, Any]:
    """Variables of a host on this machine."""
    return {
        "ansible_host": "127.0.0.1",
        "ansible_port": port,
        "ansible_user": "root",
        "ansible_ssh_common_args": f"-F {config} {further}".strip(),
        **changes,
    }


def configuration(file: Path, known_hosts: Path, key: Path | None, agent: str = "none") -> Path:
    """A configuration of ssh with its own host keys and its own key."""
    identity = "none" if key is None else str(key)
    file.write_text(
        f"UserKnownHostsFile {known_hosts}\nGlobalKnownHostsFile none\nIdentitiesOnly yes\n"
        f"IdentityFile {identity}\nIdentityAgent {agent}\n"
    )
    return file


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The plain machine, and a checkout that has the files of this one."""
    folder = tmp_path_factory.mktemp("first_contact")
    checkout = folder / "checkout"
    checkout.mkdir()
    for name in SHARED:
        (checkout / name).symlink_to(REPOSITORY / name)
    (folder / "home/.ssh").mkdir(parents=True)
    make_key(folder / "home/.ssh/id_ed25519")
    key = folder / "key"
    public = make_key(key)
    known_hosts = folder / "known_hosts"
    plain = ssh_machines.start(folder / "plain", public)
    known_hosts.write_text(plain.known)
    config = configuration(folder / "config", known_hosts, key)
    yield Site(folder, checkout, plain, known_hosts, key, config)
    plain.process.kill()
    plain.process.wait()


@pytest.fixture(scope="session")
def asked(site: Site) -> Iterator[Asked]:
    """What the doctor says of all hosts of the inventory; machines and sockets live as long."""
    with ExitStack() as stack:
        write_inventory(site, stack)
        yield ask_all(site)


def ask_all(site: Site) -> Asked:
    """Ask once, and look meanwhile at the command lines of all processes."""
    before = site.known_hosts.read_bytes()
    seen: set[str] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            seen.update(filter(shows_password, command_lines()))
            time.sleep(0.2)

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.monotonic()
    answer = site.yard("--inventory", str(site.inventory), "doctor", "--json", **CARELESS)
    seconds = time.monotonic() - began
    done.set()
    watcher.join()
    kept = site.known_hosts.read_bytes() == before
    return Asked(answer.returncode, answer.stdout, answer.stderr, seconds, kept, tuple(seen))


def shows_password(text: str) -> bool:
    return PASSWORD in text or WRONG_PASSWORD in text


def command_lines() -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield process.read_bytes().replace(b"\0", b" ").decode(errors="replace")


def write_inventory(site: Site, stack: ExitStack) -> None:
    """Make the mistakes."""
    folder, config, port = site.folder, site.config, site.plain.port
    public = site.key.with_name("key.pub").read_text()

    def machine(name: str, **options: Any) -> int:
        started = ssh_machines.start(folder / name, public, **options)
        stack.callback(started.process.wait)
        stack.callback(started.process.kill)
        with site.known_hosts.open("a") as file:
            file.write(started.known)
        return started.port

    def variant(name: str, known_hosts: Path | None = None, key: Path | None = None) -> Path:
        return configuration(folder / name, known_hosts or site.known_hosts, key)

    def plain(**changes: Any) -> dict[str, Any]:
        return reached(port, config, **changes)

    unknown = variant("config_unknown", folder / "known_hosts_empty", site.key)
    changed_file = folder / "known_hosts_changed"
    other = folder / "other_key"
    make_key(other)
    kind, key = other.with_name("other_key.pub").read_text().split()[:2]
    changed_file.write_text(f"# another machine\n[127.0.0.1]:{port} {kind} {key}\n")
    too_open = folder / "open_key"
    too_open.write_bytes(site.key.read_bytes())
    too_open.chmod(0o644)
    locked = folder / "locked_key"
    locked.write_bytes(site.key.read_bytes())
    locked.chmod(0o600)
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(locked)],
        check=True,
        capture_output=True,
    )
    locked.with_name("locked_key.pub").write_text(public)
    keyless = variant("config_keyless")
    # Taken, so that nobody else listens there, and nobody listens: it is refused.
    holder = stack.enter_context(socket.socket())
    holder.bind(("127.0.0.1", 0))
    closed = holder.getsockname()[1]
    strict = machine("strict", sshd="AllowTcpForwarding no\nPasswordAuthentication no\n")
    sudoless = machine("no_sudo", without=["bin/sudo"])
    hosts: dict[str, dict[str, Any]] = {
        "fine": plain(ansible_port="{{ 0 + " + str(port) + " }}"),
        "fine_sudo": plain(ansible_user="ops"),
        "fine_password": plain(ansible_user="ada", ansible_become_password=PASSWORD),
        "fine_login": reached(
            port,
            keyless,
            ansible_user="ada",
            ansible_password=PASSWORD,
            ansible_become_password=PASSWORD,
        ),
        "fine_bastion": plain(ansible_ssh_common_args=f"-F {config} -J ops@127.0.0.1:{port}"),
        "fine_bastions": reached(port, config, f"-J ops@127.0.0.1:{port},ada@127.0.0.1:{port}"),
        "fine_here": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable},
        "container": {"ansible_connection": "community.docker.docker"},
        "unresolved": plain(ansible_host="{{ no_such_variable }}"),
        "bad_option": reached(port, config, "-o Nonsense=1"),
        "unnamed": plain(ansible_host="gpu01.invalid"),
        "closed_port": plain(ansible_port=closed),
        "silent": plain(ansible_port=stack.enter_context(silent_port())),
        "dropped": plain(ansible_port=stack.enter_context(full_port())),
        "no_sshd": plain(ansible_port=stack.enter_context(other_service())),
        "unknown_key": reached(port, unknown),
        "unknown_key_too": reached(strict, unknown),
        "unkept_keys": reached(port, variant("config_unkept", Path("/dev/null"), site.key)),
        "changed_key": reached(port, variant("config_changed", changed_file, site.key)),
        "no_key": reached(port, keyless),
        "wrong_key": reached(port, variant("config_wrong", key=other)),
        "wrong_key_alone": reached(strict, variant("config_wrong_alone", key=other)),
        "wrong_user": plain(ansible_user="debian"),
        "missing_key_file": reached(
            port, keyless, ansible_ssh_private_key_file=str(folder / "no_such_key")
        ),
        "open_key_file": reached(port, keyless, ansible_ssh_private_key_file=str(too_open)),
        "locked_key_file": reached(port, keyless, ansible_ssh_private_key_file=str(locked)),
        "wrong_password": reached(
            port, keyless, ansible_user="ada", ansible_password=WRONG_PASSWORD
        ),
        "untaken_password": reached(strict, keyless, ansible_user="ada", ansible_password=PASSWORD),
        "bastion_down": reached(port, config, f"-J 127.0.0.1:{closed}"),
        "bastion_second": reached(port, config, f"-J 127.0.0.1:{port},127.0.0.1:{closed}"),
        "bastion_user": reached(port, config, f"-J nobody_there@127.0.0.1:{port}"),
        "bastion_forbids": reached(port, config, f"-J 127.0.0.1:{strict}"),
        "behind_bastion": reached(closed, config, f"-J 127.0.0.1:{port}"),
        "unknown_behind": reached(
            machine("hidden"),
            variant("config_hidden", folder / "known_hosts_hidden", site.key),
            f"-J 127.0.0.1:{port}",
        ),
        "proxy_command": reached(port, config, "-o ProxyCommand=false"),
        "mute": plain(ansible_user="mute"),
        "tmux": plain(ansible_ssh_args='-o "RemoteCommand=tmux new"'),
        "loud": plain(ansible_user="loud"),
        "bullseye": reached(machine("bullseye", release=BULLSEYE), config),
        "no_python": reached(machine("no_python", without=["bin/python3"]), config),
        "old_python": reached(
            machine("old_python", programs={"bin/python3.6": "#!/bin/sh\necho 3.6.9\n"}),
            config,
            ansible_python_interpreter="/usr/bin/python3.6",
        ),
        "no_interpreter": plain(ansible_python_interpreter="/opt/python/bin/python3"),
        "not_root": plain(ansible_user="ops", ansible_become=False),
        "no_sudo": reached(sudoless, config, ansible_user="ops"),
        "root_unnamed": {
            name: value
            for name, value in reached(sudoless, config, "-l root").items()
            if name != "ansible_user"
        },
        "not_in_sudoers": plain(ansible_user="guest", ansible_become_password=PASSWORD),
        "some_commands": plain(ansible_user="packager", ansible_become_password=PASSWORD),
        "sudo_asks": plain(ansible_user="ada"),
        "sudo_wrong": plain(ansible_user="ada", ansible_become_password=WRONG_PASSWORD),
        "clock": reached(
            machine("clock", programs={"bin/date": "#!/bin/sh\necho 1700000000\n"}), config
        ),
        "disk": reached(machine("disk", further="mount -t tmpfs -o size=1m tmpfs /srv"), config),
    }
    quiet = stack.enter_context(silent_port())
    hosts |= {f"silent_{number}": plain(ansible_port=quiet) for number in range(10)}
    # What is behind the bastion is known to nobody.
    (folder / "known_hosts_hidden").write_text(site.plain.known)
    site.inventory.mkdir()
    (site.inventory / "hosts.yml").write_text(
        yaml.safe_dump({"trainers": {"hosts": hosts}}, sort_keys=False)
    )


def silent_port() -> "Listening":
    """A port that takes connections and says nothing."""
    return Listening(backlog=16)


def full_port() -> "Listening":
    """A port whose queue is full, so that the kernel drops what comes, as a firewall does."""
    return Listening(backlog=0, fill=2)


def other_service() -> "Listening":
    """A port of something else than sshd, which answers with bytes."""
    return Listening(backlog=16, says=b"\x00\x01\x02\x03\n" * 4)


class Listening:
    """A socket that listens while it is entered; as context its port."""

    def __init__(self, backlog: int, fill: int = 0, says: bytes | None = None) -> None:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(backlog)
        self._filling = [socket.socket() for _ in range(fill)]
        self._says = says

    def __enter__(self) -> int:
        address = self._socket.getsockname()
        for one in self._filling:
            one.setblocking(False)
            with suppress(BlockingIOError):
                one.connect(address)
        if self._says is not None:
            threading.Thread(target=self._answer, args=(self._says,), daemon=True).start()
        return int(address[1])

    def __exit__(self, *_: object) -> None:
        for one in (self._socket, *self._filling):
            one.close()

    def _answer(self, says: bytes) -> None:
        with suppress(OSError):
            while True:
                taken, _ = self._socket.accept()
                with taken:
                    taken.sendall(says)
                    taken.settimeout(2)
                    taken.recv(1000)


# What each host must come to: the code, a pattern that proof or cause must show, and what the one
# command must be.
EXPECTED: Mapping[str, tuple[str, str, str]] = {
    "unresolved": ("variables_unresolved", "no_such_variable", "${EDITOR:-vi} {site}/hosts.yml"),
    "bad_option": ("ssh_unusable", "nonsense", "${EDITOR:-vi} {site}/hosts.yml"),
    "unnamed": ("name_unknown", "gpu01.invalid", "${EDITOR:-vi} {site}/hosts.yml"),
    "closed_port": ("refused", "Connection refused", "${EDITOR:-vi} {site}/hosts.yml"),
    "silent": ("silent", "banner exchange", "${EDITOR:-vi} {site}/hosts.yml"),
    "dropped": ("timed_out", "timed out", "${EDITOR:-vi} {site}/hosts.yml"),
    "no_sshd": ("no_sshd", "invalid", "${EDITOR:-vi} {site}/hosts.yml"),
    "unknown_key": (
        "host_key_unknown",
        "SHA256:",
        "echo '{plain_key}' >> {folder}/known_hosts_empty",
    ),
    "unkept_keys": ("host_key_unkept", "UserKnownHostsFile", "${EDITOR:-vi} {site}/hosts.yml"),
    "changed_key": (
        "host_key_changed",
        "line 2 of {folder}/known_hosts_changed",
        "ssh-keygen -f {folder}/known_hosts_changed -R '[127.0.0.1]:{port}'",
    ),
    "no_key": ("no_key", "publickey", "ssh-keygen -t ed25519"),
    "wrong_key": (
        "key_refused",
        "offered: {folder}/other_key",
        "ssh-copy-id -i {folder}/other_key.pub -p {port} -F {folder}/config_wrong root@127.0.0.1",
    ),
    "wrong_key_alone": (
        "key_refused_everywhere",
        "accepts only publickey",
        "install -d -o root -m 700 ~root/.ssh && echo '{other_key}' >> ~root/.ssh/authorized_keys",
    ),
    "wrong_user": (
        "key_refused",
        "for user debian",
        "ssh-copy-id -i {folder}/key.pub -p {port} -F {folder}/config debian@127.0.0.1",
    ),
    "missing_key_file": ("key_file_missing", "no_such_key", "${EDITOR:-vi} {site}/hosts.yml"),
    "open_key_file": ("key_file_open", "open_key", "chmod 600 {folder}/open_key"),
    "locked_key_file": ("key_locked", "passphrase", "{agent}ssh-add {folder}/locked_key"),
    "wrong_password": ("password_wrong", "ansible_password", "${EDITOR:-vi} {site}/hosts.yml"),
    "untaken_password": (
        "password_untaken",
        "accepts only publickey",
        "install -d -o ada -m 700 ~ada/.ssh && echo '{own_key}' >> ~ada/.ssh/authorized_keys",
    ),
    "bastion_down": ("refused", "The bastion 127.0.0.1", "${EDITOR:-vi} {site}/hosts.yml"),
    "bastion_second": ("refused", "The bastion 127.0.0.1", "${EDITOR:-vi} {site}/hosts.yml"),
    "bastion_user": (
        "key_refused",
        "The bastion 127.0.0.1",
        "ssh-copy-id -i {folder}/key.pub -p {port} -F {folder}/config nobody_there@127.0.0.1",
    ),
    "bastion_forbids": ("forwarding_forbidden", "prohibited", "${EDITOR:-vi} {site}/hosts.yml"),
    "behind_bastion": ("refused", "open failed", "${EDITOR:-vi} {site}/hosts.yml"),
    # Whether ssh reads or writes first decides if it says "closed" or "Broken pipe".
    "proxy_command": ("proxy_failed", "UNKNOWN port 65535", "false"),
    "mute": ("shell_silent", "not available", "${EDITOR:-vi} {site}/hosts.yml"),
    "tmux": ("ssh_option", "RemoteCommand tmux new", "${EDITOR:-vi} {site}/hosts.yml"),
    "loud": ("shell_prints", "Welcome to the cluster", "{loud} 'sed -i {sed} ~/.bashrc'"),
    "bullseye": ("release_unsupported", "Debian GNU/Linux 11", "${EDITOR:-vi} {site}/hosts.yml"),
    "no_interpreter": ("interpreter_missing", "/opt/python", "${EDITOR:-vi} {site}/hosts.yml"),
    "old_python": ("python_old", "Python 3.6.9", "${EDITOR:-vi} {site}/hosts.yml"),
    "not_root": ("not_root", "ansible_become", "${EDITOR:-vi} {site}/hosts.yml"),
    "not_in_sudoers": (
        "sudo_not_allowed",
        "guest is not in the sudoers file",
        """{guest} "su - -c 'adduser guest sudo'\"""",
    ),
    "some_commands": (
        "sudo_not_allowed",
        "not allowed to execute",
        """{packager} "su - -c 'adduser packager sudo'\"""",
    ),
    "sudo_asks": (
        "sudo_password_missing",
        "a password is required",
        "mkdir -p {site}/group_vars/trainers && "
        ".venv/bin/ansible-vault create {site}/group_vars/trainers/vault.yml",
    ),
    "sudo_wrong": ("sudo_password_wrong", "Sorry, try again", "${EDITOR:-vi} {site}/hosts.yml"),
}


@pytest.mark.process
@machines
@pytest.mark.parametrize("host", EXPECTED)
def test_each_mistake_has_its_cause_and_its_command(host: str, site: Site, asked: Asked) -> None:
    """Stand-ins are the release of `bullseye` and the Python of `old_python`: a file, a script."""
    code, shown, remedy = (_filled(text, site) for text in EXPECTED[host])
    trouble = asked.trouble(host)
    assert trouble["code"] == code
    assert shown in "\n".join([trouble["cause"], *trouble["proof"]])
    assert trouble["remedy"] == remedy


def _filled(text: str, site: Site) -> str:
    port = str(site.plain.port)
    there = f"ssh -t -p {port} -F {site.config}"
    values = {
        "{site}": str(site.inventory),
        "{folder}": str(site.folder),
        "{port}": port,
        "{plain_key}": site.plain.known.strip(),
        "{other_key}": (site.folder / "other_key.pub").read_text().strip(),
        "{own_key}": (site.home / ".ssh/id_ed25519.pub").read_text().strip(),
        "{agent}": "" if os.environ.get("SSH_AUTH_SOCK") else 'eval "$(ssh-agent -s)" && ',
        "{loud}": f"{there} loud@127.0.0.1",
        "{guest}": f"{there} guest@127.0.0.1",
        "{packager}": f"{there} packager@127.0.0.1",
        "{sed}": r'"1i case \$- in *i*) ;; *) return ;; esac"',
    }
    for name, value in values.items():
        text = text.replace(name, value)
    return text


@pytest.mark.process
@machines
@pytest.mark.parametrize(
    ("host", "code", "remedy"),
    [
        ("no_python", "python_missing", "apt-get update && apt-get install -y python3"),
        ("no_sudo", "sudo_missing", "adduser ops sudo"),
        ("root_unnamed", "root_unnamed", "${EDITOR:-vi}"),
        ("clock", "clock_off", '"date -s @$(date +%s)"'),
        ("disk", "disk_full", "du -xh --max-depth=3 /srv"),
        ("unknown_behind", "host_key_unknown", "-o StrictHostKeyChecking=ask"),
    ],
)
def test_what_a_machine_lacks(host: str, code: str, remedy: str, asked: Asked) -> None:
    """The clock is a stand-in: a `date` that tells another time."""
    trouble = asked.trouble(host)
    assert trouble["code"] == code
    assert remedy in trouble["remedy"]


@pytest.mark.process
@machines
def test_the_fingerprint_is_that_of_the_machine(site: Site, asked: Asked) -> None:
    key = site.folder / "plain/etc/ssh/own_key.pub"
    told = subprocess.run(
        ["ssh-keygen", "-lf", str(key)], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    assert asked.trouble("unknown_key")["proof"] == [f"{told} (ED25519)"]
    assert asked.trouble("changed_key")["proof"][0] == f"it shows {told}"


@pytest.mark.process
@machines
def test_bastions_and_hosts_are_told_apart(asked: Asked) -> None:
    blamed = {host["host"] for host in json.loads(asked.output)["hosts"] if _bastion(host)}
    assert blamed == {"bastion_down", "bastion_second", "bastion_user"}


def _bastion(host: Mapping[str, Any]) -> bool:
    return host["trouble"] is not None and host["trouble"]["bastion"] is not None


@pytest.mark.process
@machines
@pytest.mark.parametrize(
    ("host", "root"),
    [
        ("fine", "is root"),
        ("fine_sudo", "sudo without a password"),
        ("fine_password", "sudo with a password"),
        ("fine_login", "sudo with a password"),
        ("fine_bastion", "is root"),
        ("fine_bastions", "is root"),
    ],
)
def test_a_host_that_is_fit(host: str, root: str, asked: Asked) -> None:
    told = asked.host(host)
    assert told["trouble"] is None
    assert told["root"] == root
    assert told["facts"]["release"] == "Debian GNU/Linux 12 (bookworm)"
    assert told["facts"]["python"].startswith("3.")
    assert told["facts"]["free_bytes"]["/"] > 0


@pytest.mark.process
@machines
def test_without_root_nobody_has_to_become_root(site: Site) -> None:
    """With containers it is told: `not_root` of the table."""
    host = site.plain_host(ansible_user="ops", ansible_become=False, trainyard_runtime="native")
    other = site.plain_host(ansible_port=1, trainyard_runtime="native")
    inventory = site.inventory_of("native", gpu01=host, gpu02=other)
    answer = site.yard("--inventory", str(inventory), "doctor", "--on=gpu01")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "needs no root" in answer.stdout
    assert "This machine and 1 host are fit." in answer.stdout
    assert "gpu02" not in answer.stdout


@pytest.mark.process
@machines
def test_hosts_that_ssh_does_not_reach(asked: Asked) -> None:
    assert asked.host("fine_here")["place"] == "this machine"
    assert asked.host("container")["note"] == "reached by community.docker.docker, not asked"


@pytest.mark.process
@machines
def test_all_at_once_and_without_a_trace(asked: Asked) -> None:
    """A dozen silent hosts cost seconds, not a minute; nothing is learnt, no password is seen."""
    assert asked.status == 3
    assert asked.seconds < 100
    assert asked.known_hosts_kept
    assert asked.passwords_seen == ()
    assert not shows_password(asked.output + asked.errors)


@pytest.mark.process
@machines
def test_the_commands_mend(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed is given, as it is, until nothing is wrong: nobody edits a command."""
    folder = site.folder / "mended"
    public = site.key.with_name("key.pub").read_text()
    machine = ssh_machines.start(folder / "machine", public)
    try:
        _mend(site, folder, machine, monkeypatch)
    finally:
        machine.process.kill()
        machine.process.wait()


def _mend(site: Site, folder: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    known, changed = folder / "known_hosts", folder / "known_hosts_changed"
    known.write_text(machine.known)
    new = folder / "new_key"
    kind, key = make_key(new).split()[:2]
    changed.write_text(f"[127.0.0.1]:{machine.port} {kind} {key}\n")
    too_open = folder / "open_key"
    too_open.write_bytes(site.key.read_bytes())
    too_open.chmod(0o644)

    def host(name: str, known_hosts: Path, key: Path | None, **changes: Any) -> dict[str, Any]:
        config = configuration(folder / f"config_{name}", known_hosts, key)
        return reached(machine.port, config, **changes)

    inventory = site.inventory_of(
        "mending",
        unknown=host("unknown", folder / "not_there/known_hosts", site.key),
        changed=host("changed", changed, site.key),
        open=host("open", known, None, ansible_ssh_private_key_file=str(too_open)),
        newcomer=host("newcomer", known, new, ansible_user="newcomer"),
        loud=host("loud", known, site.key, ansible_user="loud"),
    )
    # What people would type when ssh-copy-id asks: a stand-in for them.
    fingers = folder / "fingers"
    fingers.write_text(f"#!/bin/sh\necho '{PASSWORD}'\n")
    fingers.chmod(0o755)
    home = folder / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    typing = {**os.environ, "SSH_ASKPASS": str(fingers), "SSH_ASKPASS_REQUIRE": "force"}
    codes: dict[str, list[str]] = {}
    project = Project(site.checkout)
    connections = read_connections(project, inventory)
    for _ in range(3):
        asked = ask_hosts(project, inventory, connections, connections.hosts, lambda: False)
        wrong = [(told.host, told.trouble) for told in asked if told.trouble]
        for name, trouble in wrong:
            codes.setdefault(name, []).append(trouble.code)
            subprocess.run(
                ["bash", "-c", trouble.remedy],
                env=typing,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=30,
                check=True,
            )
    assert not wrong
    assert codes == {
        "unknown": ["host_key_unknown"],
        "changed": ["host_key_changed", "host_key_unknown"],
        "open": ["key_file_open"],
        "newcomer": ["key_refused"],
        "loud": ["shell_prints"],
    }


@pytest.mark.process
@pytest.mark.promise("make doctor")
@machines
def test_make_doctor(site: Site) -> None:
    """The target, as a new user gives it: for people, and with the status of `make`.

    Mistakes in the inventory are told with those of the hosts, whatever the locale is: Ansible ends
    in C, and the inventory was blamed.
    """
    unknown = configuration(site.folder / "config_make", site.folder / "known_hosts_make", site.key)
    inventory = site.inventory_of(
        "make",
        gpu01=site.plain_host(),
        gpu02=reached(site.plain.port, unknown),
        gpu03=reached(site.plain.port, unknown),
    )
    hosts = inventory / "hosts.yml"
    text = hosts.read_text().replace("10.0.0.2\n", "10.0.0.1\n").replace("0/24", "0")
    hosts.write_text(f"{text}trainer: {{hosts: {{gpu04: {{}}}}}}\n")
    (inventory / "group_vars").mkdir()
    (inventory / "group_vars/trainers.yml").write_text("cluster_adress: 10.0.0.1\n")
    answer = subprocess.run(
        [
            *("make", f"--old-file={sys.prefix}/.complete", f"VENV={sys.prefix}", "doctor"),
            *(f"INVENTORY={inventory}", "ON=gpu01,gpu02,gpu03"),
        ],
        cwd=site.checkout,
        env={**Yard(site.checkout).environment, "HOME": str(site.home), "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 2
    assert "Error 3" in answer.stderr
    assert answer.stdout.count(f"echo '{site.plain.known.strip()}' >> ") == 1
    for said in (
        "gpu02, gpu03  The host key is unknown here.",
        "fine   C.UTF-8 in place of LC_ALL=C, which is not installed or not UTF-8",
        "the inventory  It has 4 mistakes, and make setup refuses it. (here_inventory)",
        "cluster_address 10.0.0.1 belongs to gpu01, gpu02",
        "cluster_network: 10.0.0.0 has no mask. Write it as CIDR, such as 10.0.0.0/24.",
        "gpu04 in it is not in trainers. Is trainers meant?",
        "trainers.yml:1: cluster_adress is not a site-wide variable. Is cluster_address meant?",
        f"{{EDITOR:-vi}} {hosts}",
        "Not fit: 2 of 3 hosts and the inventory.",
    ):
        assert said in answer.stdout


@pytest.mark.process
def test_an_inventory_with_a_mistake_is_named(fresh: Yard) -> None:
    assert fresh("--inventory", "inventory/nowhere", "doctor").returncode == 2
    answer = fresh("--inventory", "inventory/lab", "doctor", "--on", "alpha,gamma")
    assert answer.returncode == 2
    assert answer.stderr == "yard: no host gamma; there are: alpha, beta\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("ssh: connect to host 10.0.0.9 port 22: No route to host", "no_route"),
        ("ssh: connect to host fe80::1 port 22: Network is unreachable", "no_route"),
        ("kex_exchange_identification: read: Connection reset by peer", "closed"),
        ("Connection closed by 10.0.0.9 port 22", "closed"),
        (
            "Unable to negotiate with 10.0.0.9 port 22: no matching host key type found. Their "
            "offer: ssh-rsa,ssh-dss",
            "algorithms",
        ),
        (
            "Received disconnect from 10.0.0.9 port 22:2: Too many authentication failures",
            "too_many_keys",
        ),
        ("Bad owner or permissions on /home/ada/.ssh/config", "ssh_unusable"),
        (
            "bind [127.0.0.1]:8471: Address already in use\n"
            "channel_setup_fwd_listener_tcpip: cannot listen to port: 8471\n"
            "Could not request local forwarding.",
            "forward_failed",
        ),
        ("kex_exchange_identification: something of a later release", "ssh_failed"),
    ],
)
def test_words_of_ssh(words: str, code: str) -> None:
    """Stand-ins: words that ssh says where this machine cannot be brought to it."""
    settings = Settings("10.0.0.9", 22, "ops")
    answer = Answer(255, "", f"debug1: Connection refused\n{words}\n")
    trouble = trouble_at(Connection("host", address="10.0.0.9"), settings, answer)
    assert trouble.code == code
    assert trouble.proof == tuple(words.splitlines())


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("requesttty force", "RequestTTY force"),
        ("requesttty true", ""),
        ("remotecommand tmux new", "RemoteCommand tmux new"),
        ("sessiontype none", "SessionType none"),
        ("stdinnull yes", "StdinNull yes"),
        ("forkafterauthentication yes", "ForkAfterAuthentication yes"),
    ],
)
def test_options_for_terminals_are_in_the_way(line: str, option: str) -> None:
    text = f"user ops\nhostname 10.0.0.9\nport 22\n{line}\n"
    assert parse_settings(text).in_the_way == option


@pytest.mark.process
def test_options_for_terminals_keep_no_command_of_ansible_from_a_node(tmp_path: Path) -> None:
    """As ssh makes it of ansible.cfg, in front of what people have in their own configuration."""
    config = tmp_path / "config"
    config.write_text("Host *\nRequestTTY force\nRemoteCommand tmux new\n")
    parser = configparser.ConfigParser()
    parser.read(REPOSITORY / "ansible.cfg")
    # At blanks alone, as rsync does.
    arguments = parser["ssh_connection"]["ssh_args"].split(" ")
    settings = settings_of(
        Connection("host", address="10.0.0.9", arguments=(*arguments, "-F", str(config)))
    )
    assert not isinstance(settings, str)
    assert settings.in_the_way == ""
    # With QUIET a login that fails has no reason.
    quiet = ["ssh", *arguments, "-o", "LogLevel=QUIET", "-G", "10.0.0.9"]
    done = subprocess.run(quiet, capture_output=True, text=True, check=True)
    assert "loglevel INFO" in done.stdout.splitlines()
    theirs = settings_of(Connection("host", address="10.0.0.9", arguments=("-F", str(config))))
    assert not isinstance(theirs, str)
    assert theirs.in_the_way == "RequestTTY force"


def test_a_login_after_which_ssh_fails_is_no_fault_of_the_shell() -> None:
    said = "debug1: Authentication succeeded (publickey).\nCould not request local forwarding.\n"
    settings = Settings("10.0.0.9", 22, "ops", proxy_command="nc")
    trouble = trouble_at(Connection("host", address="10.0.0.9"), settings, Answer(255, "", said))
    assert trouble.code == "forward_failed"


def test_sudo_that_wants_a_terminal() -> None:
    """A stand-in: the words of a sudo with requiretty."""
    assert code_of("sudo: sorry, you must have a tty to run sudo", "sudo") == "sudo_needs_terminal"


@pytest.mark.parametrize(
    ("files", "vault", "secret"),
    [
        (
            {},
            "mkdir -p {site}/group_vars/trainers && .venv/bin/ansible-vault create "
            "{site}/group_vars/trainers/vault.yml",
            "${EDITOR:-vi} {site}/hosts.yml",
        ),
        (
            {"group_vars/trainers.yml": "ansible_become_pass: horse\n"},
            ".venv/bin/ansible-vault encrypt_string --stdin-name ansible_become_password >> "
            "{site}/group_vars/trainers.yml",
            "${EDITOR:-vi} {site}/group_vars/trainers.yml",
        ),
        (
            {"group_vars/trainers/vault.yml": "$ANSIBLE_VAULT;1.1;AES256\n6162\n"},
            ".venv/bin/ansible-vault edit {site}/group_vars/trainers/vault.yml",
            ".venv/bin/ansible-vault edit {site}/group_vars/trainers/vault.yml",
        ),
    ],
)
def test_where_a_password_belongs(
    files: Mapping[str, str], vault: str, secret: str, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    for name, text in {"hosts.yml": "trainers: {hosts: {gpu01: {}}}\n", **files}.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    commands = InventoryFiles(Project(tmp_path / "checkout"), site).commands("gpu01")
    assert commands["vault"] == vault.replace("{site}", str(site))
    assert commands["secret"] == secret.replace("{site}", str(site))
    assert commands["edit"] == f"${{EDITOR:-vi}} {site}/hosts.yml"


def checks_of(folder: Path, project: str = "") -> Mapping[str, Trouble | None]:
    """What is said of this machine, by a checkout that asks for this."""
    (folder / "pyproject.toml").write_text(
        project or '[project]\nrequires-python = ">=3.11"\ndependencies = []\n'
    )
    return {check.name: check.trouble for check in check_here(Project(folder), folder / "site")}


def test_this_machine_is_fit(tmp_path: Path) -> None:
    checks = checks_of(tmp_path, (REPOSITORY / "pyproject.toml").read_text())
    assert list(checks)[:3] == ["Python", "virtual environment", "programs"]
    assert not any(checks.values())


def test_another_python_and_other_packages_are_needed(tmp_path: Path) -> None:
    """A stand-in: a checkout that needs what nobody has."""
    checks = checks_of(
        tmp_path,
        '[project]\nrequires-python = ">=3.99"\n'
        'dependencies = ["ansible-core==0.1", "uv", "no-such-package==1"]\n',
    )
    python, environment = checks["Python"], checks["virtual environment"]
    assert python is not None
    assert python.code == "here_python_old"
    assert environment is not None
    assert "ansible-core is 2." in environment.cause
    assert "no-such-package is missing and must be 1" in environment.cause
    assert environment.remedy == "./bootstrap.sh .venv"


def test_programs_that_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("ssh", "git"):
        (tmp_path / program).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    trouble = checks_of(tmp_path)["programs"]
    assert trouble is not None
    assert trouble.cause == "Not installed here: ssh-keyscan, rsync."
    assert trouble.remedy == "sudo apt-get update && sudo apt-get install -y openssh-client rsync"


def test_a_disk_here_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in: what the system tells of the disk."""
    usage = shutil.disk_usage(tmp_path)._replace(free=10**9)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    troubles = [trouble for trouble in checks_of(tmp_path).values() if trouble]
    assert [trouble.code for trouble in troubles] == ["here_disk_full"] * len(troubles)
    assert troubles[0].proof == ("1.0 GB free",)
    assert troubles[0].remedy == "make clean-up"


def test_every_cause_can_be_said() -> None:
    values = {name: name.upper() for name in _names_of_values()}
    for code in load_causes():
        trouble = Trouble(code, values)
        assert trouble.cause
        assert trouble.remedy.strip()
        assert "{" not in trouble.cause + trouble.advice


def test_the_docs_have_every_cause() -> None:
    text = (REPOSITORY / "docs/first-contact.md").read_text()
    assert [code for code in load_causes() if f"`{code}`" not in text] == []


def _names_of_values() -> set[str]:
    return {
        name
        for cause in load_causes().values()
        for text in (cause.cause, cause.advice, cause.remedy)
        for _, name, _, _ in string.Formatter().parse(text)
        if name is not None
    }


def test_settings_of_ssh() -> None:
    text = (
        "user ops\nhostname 10.0.0.9\nport 2222\nproxyjump gate,ada@inner:2200\n"
        "userknownhostsfile ~/.ssh/known_hosts ~/.ssh/known_hosts2\n"
    )
    settings = parse_settings(text)
    assert (settings.address, settings.port, settings.user) == ("10.0.0.9", 2222, "ops")
    assert settings.jumps == ("gate", "ada@inner:2200")
    assert settings.known_name == "[10.0.0.9]:2222"
    assert settings.known_hosts == str(Path("~/.ssh/known_hosts").expanduser())
    alias = parse_settings(text + "hostkeyalias gpu01\n")
    assert alias.known_name == "gpu01"


@pytest.mark.process
def test_a_fingerprint_is_that_of_ssh_keygen(tmp_path: Path) -> None:
    kind, key = make_key(tmp_path / "key").split()[:2]
    told = subprocess.run(
        ["ssh-keygen", "-lf", str(tmp_path / "key.pub")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert HostKey(kind, key).fingerprint == told[1]
    assert HostKey(kind, key).name == "ED25519"


@pytest.mark.process
@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("ada@gpu01's password: ", True),
        ("(ada@gpu01) Password: ", True),
        ("bob@gate's password: ", False),
        # What a bastion says comes behind what ssh says of it.
        ("(bob@gate) ada@gpu01's password: ", False),
        ("(bob@gate) (ada@gpu01) Password: ", False),
        ("ada@gpu010's password: ", False),
    ],
)
def test_a_password_is_told_to_the_machine_that_it_is_for_alone(question: str, told: bool) -> None:
    known = {"TRAINYARD_ASKPASS_LOGIN": "ada@gpu01", "TRAINYARD_ASKPASS_PASSWORD": "open sesame"}
    asked = subprocess.run(
        [str(ASKPASS), question], env=known, capture_output=True, text=True, check=False
    )
    assert asked.stdout == ("open sesame\n" if told else "")
