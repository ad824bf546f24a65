"""How the image travels: a registry that ends with its task, and a port that no network reaches."""

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.trainer_image_ports import exposed
from role_files import ROLES, action_plugin

registry = action_plugin("trainer_image", "trainer_image_registry")

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue\n"
LOOPBACK = "   0: 0100007F:9C40 00000000:0000 0A 00000000:00000000\n"
EVERYWHERE = "   1: 00000000:9C40 00000000:0000 0A 00000000:00000000\n"
CONNECTED = "   2: 0B0C760A:9C40 010C760A:D431 01 00000000:00000000\n"


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        ((), False),
        ((LOOPBACK,), False),
        ((LOOPBACK, CONNECTED), False),
        ((LOOPBACK, EVERYWHERE), True),
        ((EVERYWHERE.replace(":9C40", ":9C41"),), False),
    ],
)
def test_a_port_that_a_network_reaches_is_seen(lines: tuple[str, ...], answer: bool) -> None:
    assert exposed(HEADER + "".join(lines), 40000) is answer


def test_a_port_of_ipv6_that_a_network_reaches_is_seen() -> None:
    address = "0" * 32
    loopback = "0" * 24 + "01000000"
    line = LOOPBACK.replace("0100007F", address)
    assert exposed(HEADER + line, 40000)
    assert not exposed(HEADER + line.replace(address, loopback), 40000)


def test_a_listener_of_this_machine_is_read_from_the_kernel() -> None:
    table = Path("/proc/net/tcp")
    for address, answer in (("127.0.0.1", False), ("0.0.0.0", True)):
        with socket.create_server((address, 0)) as server:
            assert exposed(table.read_text(), server.getsockname()[1]) is answer


def test_a_port_is_kept_until_somebody_else_has_it() -> None:
    port = registry.free_port(0)
    assert registry.free_port(port) == port
    with socket.create_server(("127.0.0.1", port)):
        assert registry.free_port(port) not in (0, port)


@pytest.mark.parametrize("read_only", [False, True])
def test_the_configuration_says_whether_anything_may_be_changed(read_only: bool) -> None:
    document = json.loads(registry.configuration({"net": "unix", "addr": "a.sock"}, read_only))
    assert document["storage"]["maintenance"]["readonly"]["enabled"] is read_only
    assert document["http"]["addr"] == "a.sock"
    assert "delete" not in document["storage"]


@pytest.mark.process
def test_a_program_that_does_not_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(registry.RegistryError, match="no disk is left"),
        registry.readable_registry(program(tmp_path, "echo no disk is left >&2; exit 1"), tmp_path),
    ):
        pytest.fail("it has not started")
    assert list(tmp_path.glob("*.sock")) == []


def test_old_sockets_go(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "0011.sock"))
    (tmp_path / "port").touch()
    registry.remove_old_sockets(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["port"]


def test_a_listener_is_found_however_long_its_path_is(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 120)
    directory.mkdir()
    assert not registry.answers_in(directory, "a.sock")
    opened = os.open(directory, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{opened}/a.sock")
        assert not registry.answers_in(directory, "a.sock")  # bound, and not listening yet
        server.listen()
        assert registry.answers_in(directory, "a.sock")
    os.close(opened)


def test_pulls_share_the_data_and_a_push_has_them_alone(tmp_path: Path) -> None:
    def held(kind: int) -> bool:
        with (tmp_path / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    with registry.locked(tmp_path, exclusive=False):
        assert not held(fcntl.LOCK_SH)
        assert held(fcntl.LOCK_EX)
    with registry.locked(tmp_path, exclusive=True):
        assert held(fcntl.LOCK_SH)
    assert not held(fcntl.LOCK_EX)


# Starts a program as the action does, says which process it is, and waits to be killed.
STARTER = """
import importlib.util, pathlib, sys, time
specification = importlib.util.spec_from_file_location("registry", sys.argv[1])
registry = importlib.util.module_from_spec(specification)
specification.loader.exec_module(registry)
process = registry.Process(["sleep", "600"], pathlib.Path("/"))
print(process._process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.process
def test_a_program_ends_with_a_task_that_is_killed() -> None:
    action = ROLES / "trainer_image/action_plugins/trainer_image_registry.py"
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(action)], stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        process = int(starter.stdout.readline())
        assert running(process)
        starter.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while running(process):
        assert time.monotonic() < deadline, "sleep outlives what started it"
        time.sleep(0.05)


class Connection:
    """What the action reads of Ansible's connection; the ssh is a program of the test's."""

    transport = "ssh"
    host = "192.0.2.1"

    def __init__(self, ssh: str = "ssh", password: str | None = None) -> None:
        self.options = {"ssh_executable": ssh, "password": password}

    def get_option(self, name: str) -> Any:
        return self.options[name]

    def _build_command(self, binary: str, subsystem: str, *arguments: str) -> list[str]:
        return [binary, *arguments]


@pytest.mark.process
def test_a_forwarding_has_a_port_and_ends(tmp_path: Path) -> None:
    said = "Allocated port 41234 for remote forward to /proc/self/cwd/a.sock:-2"
    ssh = program(tmp_path, f'echo "$@" > given; echo "{said}" >&2; exec sleep 600')
    with registry.forwarding(Connection(ssh), tmp_path, "a.sock") as (port, process):
        assert port == 41234
        number = process._process.pid
        assert running(number)
        assert process.written_bytes() > 0
    assert not running(number)
    given = (tmp_path / "given").read_text().split()
    assert given[-3:] == ["-R", "127.0.0.1:0:/proc/self/cwd/a.sock", "192.0.2.1"]
    assert given[given.index("-S") + 1] == "none"
    assert "ExitOnForwardFailure=yes" in given


@pytest.mark.process
def test_a_refused_forwarding_is_told_with_the_words_of_ssh(tmp_path: Path) -> None:
    said = "Error: remote port forwarding failed for listen port 0"
    ssh = program(tmp_path, f'echo banner >&2; echo "{said}" >&2; exit 255')
    with (
        pytest.raises(registry.ForwardingError, match=said),
        registry.forwarding(Connection(ssh), tmp_path, "a.sock"),
    ):
        pytest.fail("it was refused")


def test_nothing_is_forwarded_past_a_password_or_another_connection(tmp_path: Path) -> None:
    by_password = Connection(password="secret")
    local = Connection()
    local.transport = "local"
    for connection, reason in ((by_password, "with a password"), (local, "by local")):
        with (
            pytest.raises(registry.ForwardingError, match=reason) as caught,
            registry.forwarding(connection, tmp_path, "a.sock"),
        ):
            pytest.fail("there is no way")
        assert "secret" not in str(caught.value)


def dry_run(tmp_path: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Have the role build and bring its image on a machine without an engine."""
    roles: list[dict[str, Any]] = [
        {"ansible.builtin.import_role": {"name": "trainer_image", "tasks_from": part}}
        for part in ("begin", "main")
    ]
    play = {"name": "Bring it", "hosts": "localhost", "gather_facts": False, "tasks": roles}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    variables = {
        "ansible_become": False,
        "trainer_image_target": "runtime",
        "trainer_image_directory": str(tmp_path / "image"),
    }
    # An engine of this machine is out of sight: what lies in the place of its socket is none.
    hidden = '! [ -e /run/docker.sock ] || mount --bind /dev/null /run/docker.sock; exec "$@"'
    command = ["ansible-playbook", "play.yml", "--extra-vars", json.dumps(variables), *options]
    return subprocess.run(
        ["unshare", "--mount", "sh", "-ec", hidden, "-", *command],
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_ROLES_PATH": str(ROLES)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.process
def test_a_dry_run_needs_no_engine_and_says_what_would_be_done(tmp_path: Path) -> None:
    done = dry_run(tmp_path, "--check", "--diff")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"trainyard/trainer:\w+ would be built here", done.stdout)
    assert re.search(r"trainyard/trainer:\w+ would be brought here", done.stdout)
    assert not (tmp_path / "image").exists()


@pytest.mark.process
def test_without_an_engine_the_image_is_not_taken_for_built(tmp_path: Path) -> None:
    done = dry_run(tmp_path)
    assert done.returncode != 0
    assert "TASK [trainer_image : Look for the image]" in done.stdout
    assert "would be" not in done.stdout


def program(directory: Path, script: str) -> str:
    """Write a program, and return its path."""
    file = directory / "program"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return str(file)


def running(process: int) -> bool:
    """Whether a process is there and not a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
