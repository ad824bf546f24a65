"""Whole runs on the local cluster, through the same make targets that people type."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


class BackgroundRun:
    """A `make train` under way in a process group of its own, as a terminal would start it."""

    def __init__(self, **variables: object) -> None:
        before = set(RUNS.iterdir()) if RUNS.is_dir() else set()
        self.process = subprocess.Popen(
            ["make", "train", *(f"{name}={value}" for name, value in variables.items())],
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.directory = self._wait(
            "the run's directory",
            lambda: next((path for path in RUNS.glob("2*") if path not in before), None),
        )
        self.run_id = self.directory.name

    def _wait(self, what: str, ready: Callable[[], Any], seconds: float = 120) -> Any:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = ready()
            if found:
                return found
            assert self.process.poll() is None, self.process.communicate()[0]
            time.sleep(0.5)
        raise AssertionError(f"no {what} after {seconds:g} s")

    def wait_for_training(self) -> None:
        """Return when the first step is done."""
        metrics = f"/srv/trainyard/runs/{self.run_id}/metrics.jsonl"
        self._wait(
            "first step",
            lambda: (
                on_node("node1", f"grep -c step {metrics} 2>/dev/null || echo") not in ("", "0")
            ),
        )

    def rank_pid(self, rank: int, host: str) -> int:
        """Process id of a rank in its container, from the first line of its log."""
        line = on_node(host, f"head -1 /srv/trainyard/runs/{self.run_id}/logs/rank-{rank}.log")
        found = re.search(r"\(pid (\d+)\)", line)
        assert found, line
        return int(found[1])

    def interrupt(self) -> None:
        """Press Ctrl-C: the terminal sends it to the whole group, make and all."""
        os.killpg(self.process.pid, signal.SIGINT)

    def finish(self) -> Outcome:
        """Wait for the end."""
        output = self.process.communicate(timeout=180)[0]
        print(output)
        return Outcome(status_behind(self.process.returncode, output), output)

    def summary(self) -> dict[str, Any]:
        """Read summary.json."""
        found: dict[str, Any] = json.loads((self.directory / "summary.json").read_text())
        return found


@pytest.fixture(scope="session")
def main_job() -> tuple[Outcome, Path]:
    """The main job as the README gives it, once for all tests: it also sets up what is missing."""
    outcome = make("train", MODEL="vit", NODES=2)
    return outcome, (RUNS / "latest").resolve()
