"""Whether ranks hold a connection to another node: real sockets, and 127.0.0.2 is the other one."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from trainer.launch.connections import NodeLook
from trainer.launch.processes import program_processes

OTHER = "127.0.0.2"
RANK = {"OMPI_COMM_WORLD_RANK": "3", "TRAINYARD_OUTPUT_DIR": "/run/trainyard/outputs"}
OVER_TCP = {"OMPI_MCA_pml": "ob1"}
HOLDS = """
import socket, sys, time
held = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print("holds", flush=True)
time.sleep(600)
"""
STARTS = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process that prints a word when it is ready."""
    started = []

    def begin(*arguments: str, **environment: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", *arguments],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "holds\n"
        return process

    yield begin
    for process in started:
        # What it has started is of its session; a test may have ended all of it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def port() -> Iterator[str]:
    with socket.create_server((OTHER, 0)) as server:
        yield str(server.getsockname()[1])


def look() -> NodeLook:
    return NodeLook([os.uname().nodename, OTHER], OVER_TCP)


def test_a_rank_that_holds_a_connection_to_another_node(port: str, start: Start) -> None:
    connected = look()
    assert connected() is False
    process = start(HOLDS, OTHER, port, **RANK)
    assert [each.rank for each in program_processes()] == [3]
    assert connected() is True
    process.kill()
    process.wait()
    # It has held one; and now there is none.
    assert connected() is True
    assert look()() is False


def test_the_connection_of_a_process_that_a_rank_started(port: str, start: Start) -> None:
    start(STARTS, HOLDS, OTHER, port, **RANK)
    assert look()() is True


def test_a_connection_of_a_socket_of_both_families(start: Start) -> None:
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        start(HOLDS, f"::ffff:{OTHER}", str(server.getsockname()[1]), **RANK)
        assert look()() is True


@pytest.mark.parametrize("name", RANK)
def test_connections_of_others_do_not_count(name: str, port: str, start: Start) -> None:
    """Those of sshd and mpirun, whose processes are no program's, nor the shell around a rank."""
    start("print('holds', flush=True); import time; time.sleep(600)", **RANK)
    environment = dict(RANK)
    del environment[name]
    start(HOLDS, OTHER, port, **environment)
    assert look()() is False


def test_a_connection_within_the_node_does_not_count(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        start(HOLDS, "127.0.0.1", str(server.getsockname()[1]), **RANK)
        assert look()() is False


@pytest.mark.parametrize(
    ("nodes", "environment"),
    [
        ([], OVER_TCP),
        ([OTHER], {"OMPI_MCA_pml": "ucx"}),
        ([OTHER], {}),
        (["no-such-node.invalid"], OVER_TCP),
    ],
)
def test_nothing_is_said_where_nothing_can_be_seen(
    nodes: list[str], environment: dict[str, str]
) -> None:
    assert NodeLook([os.uname().nodename, *nodes], environment)() is None


def test_a_look_takes_little_of_a_processor(start: Start) -> None:
    for rank in ("0", "1"):
        start(
            "print('holds', flush=True); import time; time.sleep(600)",
            **RANK | {"OMPI_COMM_WORLD_RANK": rank},
        )
    connected, began_at = look(), time.process_time()
    for _ in range(10):
        connected()
    # A hundredth of a core at a sample each five seconds.
    assert (time.process_time() - began_at) / 10 < 0.05
