"""Whole runs on the local cluster, through the same make targets that people type."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
RUNS = CHECKOUT / "runs"


@dataclass(frozen=True)
class Outcome:
    """How a make target ended.

    Attributes:
        status: exit status of the yard command behind the target; make prints it, and ends with 2.
        output: everything it printed.
    """

    status: int
    output: str


def status_behind(returncode: int, output: str) -> int:
    """Read the status of the command behind a target from make's last words ("Error 130")."""
    if returncode == 0:
        return 0
    found = re.findall(r"\*\*\* \[.*\] Error (\d+)", output)
    assert found, output
    return int(found[0])


def make(target: str, **variables: object) -> Outcome:
    """Run a make target to its end."""
    command = ["make", target, *(f"{name}={value}" for name, value in variables.items())]
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    print(done.stdout)
    return Outcome(status_behind(done.returncode, done.stdout), done.stdout)


def on_node(host: str, command: str) -> str:
    """Run a shell command on a node, over the connection that Ansible uses."""
    done = subprocess.run(
        [
            "ansible",
            host,
            "--one-line",
            "--become",
            "--module-name",
            "ansible.builtin.shell",
            "--args",
            command,
        ],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split("(stdout)", 1)[1].strip() if "(stdout)" in done.stdout else ""


def containers_of_runs(host: str) -> str:
    """Names of all containers of runs on a node, running or not."""
    return on_node(host, "docker ps --all --quiet --filter label=trainyard.run")


NODES = ("node1", "node2")


@cache
def cluster_name() -> str:
    """Name of the local cluster, with which the names of its machines begin."""
    asked = ["ansible-inventory", "--host", "localhost"]
    done = subprocess.run(asked, cwd=CHECKOUT, check=True, capture_output=True, text=True)
    return str(json.loads(done.stdout).get("local_cluster_name", "trainyard"))


def machine(host: str) -> str:
    """Name of the container that is this machine of the local cluster."""
    return f"{cluster_name()}-{host}"


def docker(*arguments: str) -> str:
    """Ask the engine of this computer, whose containers the machines are."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"docker {' '.join(arguments)}\n{done.stdout}{done.stderr}"
    return done.stdout.strip()


def in_machine(host: str, command: str) -> str:
    """Run a shell command as root in a machine of the local cluster, past Ansible and SSH."""
    return docker("exec", machine(host), "sh", "-c", command)


def wait_until_ready(host: str) -> None:
    """Wait for a machine that has just been started: its SSH and its Docker engine."""
    look = "systemctl is-active --quiet ssh docker && docker version > /dev/null 2>&1"
    wait_for(f"{host} to be ready", lambda: in_machine(host, f"{look} && echo yes || true"))


def wait_for(what: str, ready: Callable[[], Any], seconds: float = 120) -> Any:
    """Return what `ready` gives as soon as it gives something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = ready()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"no {what} after {seconds:g} s")


class BackgroundMake:
    """A make target under way in a process group of its own, as a terminal would start it."""

    under_way: ClassVar[list["BackgroundMake"]] = []

    def __init__(self, target: str, **variables: object) -> None:
        self.under_way.append(self)
        self.lines: list[tuple[float, str]] = []
        self.process = subprocess.Popen(
            ["make", target, *(f"{name}={value}" for name, value in variables.items())],
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append((time.time(), line.rstrip("\n")))

    @property
    def output(self) -> str:
        """Everything printed so far."""
        return "".join(f"{line}\n" for _, line in self.lines)

    def wait_for(self, what: str, ready: Callable[[], Any], seconds: float = 120) -> Any:
        """Return what `ready` gives as soon as it gives something, at most until the end."""

        def look() -> Any:
            found = ready()
            assert found or self.process.poll() is None or self._reader.is_alive(), self.output
            return found

        return wait_for(what, look, seconds)

    def wait_for_output(self, text: str) -> None:
        """Return when a text has been printed."""
        self.wait_for(repr(text), lambda: text in self.output)

    def interrupt(self) -> None:
        """Press Ctrl-C: the terminal sends it to the whole group, make and all."""
        os.killpg(self.process.pid, signal.SIGINT)

    def finish(self, seconds: float = 300) -> Outcome:
        """Wait for the end, at most for so many seconds."""
        self.process.wait(timeout=seconds)
        self._reader.join(timeout=60)
        print(self.output)
        return Outcome(status_behind(self.process.returncode, self.output), self.output)

    def put_an_end_to(self) -> None:
        """End what its test has left: the next test needs the nodes."""
        if self.process.poll() is None:
            self.interrupt()
            self.process.wait(timeout=120)


class BackgroundRun(BackgroundMake):
    """A `make train` under way."""

    # The line that yard prints as soon as it has seen the end, whatever the end was.
    NOTICED = ("Collecting logs ...", "Stopping and collecting logs ...")

    def __init__(self, **variables: object) -> None:
        super().__init__("train", **variables)

    @classmethod
    def at_once(cls, count: int, **variables: object) -> list["BackgroundRun"]:
        """Start several at the same instant."""
        return [cls(**variables) for _ in range(count)]

    @property
    def run_id(self) -> str:
        """The run's id, once it has one."""
        line = re.compile(r"^Run (\S+)$", re.MULTILINE)
        return str(self.wait_for("run id", lambda: line.search(self.output))[1])

    @property
    def directory(self) -> Path:
        """The run's directory on the control node."""
        return RUNS / self.run_id

    def trains(self) -> "BackgroundRun":
        """Return when the first step is done."""
        metrics = f"/srv/trainyard/runs/{self.run_id}/metrics.jsonl"
        look = f"grep -q '\"step\",' {metrics} 2>/dev/null && echo yes || true"
        self.wait_for("first step", lambda: in_machine("node1", look))
        return self

    def rank_pid(self, rank: int, host: str) -> int:
        """Process id of a rank in its container, from the first line of its log."""
        line = in_machine(host, f"head -1 /srv/trainyard/runs/{self.run_id}/logs/rank-{rank}.log")
        found = re.search(r"\(pid (\d+)\)", line)
        assert found, line
        return int(found[1])

    def in_container(self, host: str, command: str) -> None:
        """Run a command in the run's container on a node."""
        in_machine(host, f"docker exec trainyard-{self.run_id} {command}")

    def kill_yard(self) -> None:
        """Kill yard with -9; make, which waits for it, ends too."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        for child in children.split():
            os.kill(int(child), signal.SIGKILL)
        self.process.wait(timeout=60)

    def noticed_at(self) -> float:
        """When the end of the run was noticed, Unix seconds."""
        return next(moment for moment, line in self.lines if line in self.NOTICED)

    def summary(self) -> dict[str, Any]:
        """Read summary.json."""
        found: dict[str, Any] = json.loads((self.directory / "summary.json").read_text())
        return found


@pytest.fixture(autouse=True)
def nothing_outlives_its_test() -> Iterator[None]:
    """A test that fails must not take the nodes from the others."""
    yield
    while BackgroundMake.under_way:
        BackgroundMake.under_way.pop().put_an_end_to()


@pytest.fixture(scope="session")
def main_job() -> tuple[Outcome, Path]:
    """The main job as the README gives it, once for all tests: it also sets up what is missing."""
    outcome = make("train", MODEL="vit", NODES=2)
    return outcome, (RUNS / "latest").resolve()
