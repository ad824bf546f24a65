"""What sshd makes of the roles' settings: really started, really asked, by ssh-audit and by ssh.

The sshd is Debian's, unpacked and not installed (tests/machines): an installed one would listen
from then on.
Molecule's scenario ssh_trust and tests/e2e/test_hostile_ranks.py audit those of nodes and runs.
"""

import getpass
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from ansible.plugins.filter.core import to_bool
from role_files import ROLES, action_plugin
from unpacked_sshd import free_port, make_key, start_sshd, why_not

from node.runs import ssh as training_run_ssh

collect = action_plugin("ssh_trust", "ssh_trust_collect")
members = action_plugin("ssh_trust", "ssh_trust_members")
USER = getpass.getuser()
WHY_NOT = why_not()
with_sshd = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
# The account that sshd separates its privileges with; the package makes it when it is installed.
ACCOUNT = "sshd:x:64000:65534::/run/sshd:/usr/sbin/nologin\n"


def render(text: str, variables: dict[str, Any]) -> str:
    """Return a text as Ansible would render it."""
    environment = jinja2.Environment(
        trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["bool"] = to_bool
    return environment.from_string(text).render(variables)


def of_node(key_exchange: str, **settings: Any) -> str:
    """Settings of a node, beside which the distribution's own stand."""
    variables = yaml.safe_load((ROLES / "ssh_trust/vars/main.yml").read_text())
    variables |= yaml.safe_load((ROLES / "ssh_trust/defaults/main.yml").read_text())
    variables |= {"ssh_trust_key_exchange": key_exchange, "ssh_trust_user": "nobody"}
    variables |= {"ssh_trust_sshd_settings": settings}
    return render(variables["ssh_trust_server_configuration"], variables)


def launch_of(addresses: dict[str, str], port: int) -> dict[str, Any]:
    """What training_run_start gets of a run on nodes with these addresses, by name."""
    return {
        "nodes": list(addresses),
        "addresses": addresses,
        "ports": dict.fromkeys(addresses, port),
        "host_keys": {name: f"ssh-ed25519 H{i}" for i, name in enumerate(addresses, start=1)},
        "client_key": "ssh-ed25519 C",
    }


def of_container(directory: Path, port: int) -> str:
    """Settings of a run's sshd, with its files in another place."""
    text: str = training_run_ssh.sshd_config(USER, "127.0.0.1", port)
    return text.replace("/etc/trainyard/ssh", str(directory))


@contextmanager
def serving(directory: Path, port: int, text: str) -> Iterator[None]:
    """Have sshd serve with these settings."""
    own = directory / "own"
    (own / "usr").mkdir(parents=True)
    (own / "etc").mkdir()
    there = Path("/etc/passwd").read_text().splitlines(keepends=True)
    others = [line for line in there if not line.startswith("sshd:")]
    (own / "etc/passwd").write_text("".join([*others, ACCOUNT]))
    settings = directory / "sshd_config"
    settings.write_text(text)
    # pytest's directory lies below one that all may write.
    command = f"exec /usr/sbin/sshd -D -e -f '{settings}' -o StrictModes=no"
    process = start_sshd(own, command, port, directory / "log")
    try:
        yield
    finally:
        process.kill()  # unshare passes SIGTERM on to nobody
        process.wait(timeout=10)


def audit(port: int) -> subprocess.CompletedProcess[str]:
    """Ask ssh-audit: 0 is nothing, 2 a warning, 3 a failure."""
    return subprocess.run(
        [
            "ssh-audit",
            "--skip-rate-test",
            "--no-colors",
            "--level=warn",
            "-p",
            str(port),
            "127.0.0.1",
        ],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.process
@with_sshd
@pytest.mark.parametrize(("key_exchange", "status"), [("post-quantum", 0), ("strong", 2)])
def test_of_the_sshd_of_a_node_nothing_is_to_be_said(
    key_exchange: str, status: int, tmp_path: Path
) -> None:
    port = free_port()
    # The host keys that Debian and Ubuntu make.
    keys = [tmp_path / f"host_{kind}" for kind in ("rsa", "ecdsa", "ed25519")]
    for key in keys:
        make_key(key, kind=key.name.removeprefix("host_"))
    own = f"Port {port}\nListenAddress 127.0.0.1\nPidFile none\nUsePAM no\n"
    own += "".join(f"HostKey {key}\n" for key in keys)
    with serving(tmp_path, port, own + of_node(key_exchange).partition("\nMatch")[0]):
        done = audit(port)
    assert done.returncode == status, done.stdout
    assert "[fail]" not in done.stdout


@pytest.fixture
def container(tmp_path: Path) -> Path:
    """The keys of a run: of the container, and of the one who logs in."""
    make_key(tmp_path / "ssh_host_ed25519_key")
    make_key(tmp_path / "id_ed25519")
    return tmp_path


def login(directory: Path, port: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Log in as a rank's launcher does, with the run's own configuration of ssh."""
    text = training_run_ssh.ssh_config(launch_of({"node1": "127.0.0.1"}, port), USER)
    configuration = directory / "config"
    configuration.write_text(text.replace("~/.ssh/id_ed25519", str(directory / "id_ed25519")))
    key = " ".join((directory / "ssh_host_ed25519_key.pub").read_text().split()[:2])
    (directory / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}\n")
    command = ["ssh", "-F", str(configuration), "-o", f"UserKnownHostsFile={directory}/known_hosts"]
    return subprocess.run(
        [*command, "-o", "BatchMode=yes", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.process
@with_sshd
def test_of_the_sshd_of_a_container_nothing_is_to_be_said(container: Path) -> None:
    port = free_port()
    public = (container / "id_ed25519.pub").read_text()
    (container / "authorized_keys").write_text(f'restrict,from="127.0.0.1" {public}')
    with serving(container, port, of_container(container, port)):
        done = audit(port)
        assert done.returncode == 0, done.stdout
        # The run's two ends find each other, in a way that no quantum computer undoes.
        said = login(container, port, "-v", "-o", "LogLevel=DEBUG1", "node1", "echo $((6 * 7))")
        assert (said.returncode, said.stdout) == (0, "42\n"), said.stderr
        [exchange] = [line for line in said.stderr.splitlines() if "kex: algorithm:" in line]
        assert exchange.rpartition(" ")[2].startswith(("mlkem768x25519-", "sntrup761x25519-"))
        # It opens commands alone: neither a terminal nor a way to the node's own ports.
        assert login(container, port, "-W", f"127.0.0.1:{port}", "node1").returncode != 0
        terminal = login(container, port, "-tt", "node1", "tty")
        assert "not a tty" in terminal.stdout or terminal.returncode != 0
        (container / "authorized_keys").write_text(f'restrict,from="192.0.2.1" {public}')
        refused = login(container, port, "node1", "true")
        assert refused.returncode == 255
        assert "Permission denied" in refused.stderr


def lets(directory: Path, port: int, *arguments: str) -> bool:
    """Whether a key that ssh_trust let in opens that."""
    command = ["ssh", "-F", "none", "-i", str(directory / "id_ed25519"), "-p", str(port)]
    options = ["BatchMode=yes", "IdentitiesOnly=yes", "StrictHostKeyChecking=no"]
    options += [f"UserKnownHostsFile={directory}/none", "ExitOnForwardFailure=yes"]
    done = subprocess.run(
        [*command, *(part for option in options for part in ("-o", option)), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode == 0


@pytest.mark.process
@with_sshd
def test_what_the_key_of_a_node_opens(container: Path) -> None:
    port, here = free_port(), f"{USER}@127.0.0.1"
    key = " ".join((container / "id_ed25519.pub").read_text().split()[:2])
    text = f"Port {port}\nListenAddress 127.0.0.1\nHostKey {container}/ssh_host_ed25519_key\n"
    text += f"AuthorizedKeysFile {container}/authorized_keys\nUsePAM no\nPidFile none\n"

    def allow(limits: Any) -> None:
        options = {"node1": limits.options("node1")}
        lines = collect.authorized_keys_lines({"node1": {"user_keys": [key]}}, "trainer", options)
        (container / "authorized_keys").write_text("\n".join([*lines, ""]))

    own = {"node1": ["127.0.0.1", "fd00::1"]}
    to_loopback = ("-W", f"127.0.0.1:{port}", here)
    elsewhere = ("-W", f"127.0.0.2:{port}", here)
    back = ("-R", "127.0.0.1:0:127.0.0.1:1", here, "true")
    with serving(container, port, text):
        allow(members.Limits(addresses=own))
        assert lets(container, port, here, "true")
        assert not lets(container, port, *to_loopback)
        assert not lets(container, port, *back)
        allow(members.Limits(addresses=own, to_loopback=True))
        assert lets(container, port, here, "true")
        assert lets(container, port, *to_loopback)
        assert not lets(container, port, *elsewhere)
        assert not lets(container, port, *back)
        allow(members.Limits(addresses={"node1": ["192.0.2.1", "10.0.0.0/24"]}))
        assert not lets(container, port, here, "true")
        allow(members.Limits(restrict=False))
        assert lets(container, port, *back)


def test_what_yaml_takes_for_true_or_false_is_yes_or_no_to_sshd() -> None:
    lines = of_node("strong", AllowTcpForwarding=False, MaxAuthTries=3).splitlines()
    assert {"AllowTcpForwarding no", "MaxAuthTries 3"} <= {*lines}


def test_known_hosts_of_a_run_has_a_line_a_node() -> None:
    launch = launch_of({"node1": "10.0.0.1", "node2": "node2.example.org"}, 2222)
    assert training_run_ssh.known_hosts(launch) == (
        "[10.0.0.1]:2222 ssh-ed25519 H1\n[node2.example.org]:2222 ssh-ed25519 H2\n"
    )


def test_the_hostfile_has_the_ranks_of_each_node() -> None:
    launch = launch_of({"node1": "10.0.0.1", "node2": "10.0.0.2"}, 2222)
    assert (
        training_run_ssh.hostfile({**launch, "slots": [4, 1]}) == "node1 slots=4\nnode2 slots=1\n"
    )


@pytest.mark.parametrize(
    ("address", "limits"),
    [
        ("10.0.0.1", 'restrict,from="10.0.0.1"'),
        ("fd00::1", 'restrict,from="fd00::1"'),
        ("node1.example.org", "restrict"),
        ("cafe", "restrict"),
        ("fe80::1%eth0", "restrict"),
    ],
)
def test_the_launcher_alone_logs_in_on_a_runs_containers(address: str, limits: str) -> None:
    """One that has a name and no address is let in from everywhere."""
    launch = launch_of({"node1": address, "node2": "10.0.0.2"}, 2222)
    assert training_run_ssh.authorized_keys(launch) == f"{limits} ssh-ed25519 C\n"
