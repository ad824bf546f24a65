"""The make targets that people type: run to their end, or in the background."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from machines import CHECKOUT, RUN_ROOT, in_machine, wait_for

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
    last_words = re.search(r"\*\*\* \[.*\] Error (\d+)", output)
    assert last_words, output
    return int(last_words[1])


def make(target: str, **variables: object) -> Outcome:
    """Run a make target to its end."""
    return make_in(CHECKOUT, target, **variables)


def make_in(checkout: Path, target: str, **variables: object) -> Outcome:
    """Run a make target of a checkout to its end."""
    command = ["make", target, *(f"{name}={value}" for name, value in variables.items())]
    done = subprocess.run(
        command,
        cwd=checkout,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    print(done.stdout)
    return Outcome(status_behind(done.returncode, done.stdout), done.stdout)


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

    def wait_for(self, what: str, ready: Callable[[], Any], seconds: float = 300) -> Any:
        """Return what `ready` gives as soon as it gives something, at most until the end."""

        def look() -> Any:
            value = ready()
            assert value or self.process.poll() is None or self._reader.is_alive(), self.output
            return value

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

    def trains(self, host: str = "node1") -> "BackgroundRun":
        """Return when the first step is done.

        Args:
            host: the first of the run's nodes.
        """
        metrics = f"{RUN_ROOT}/{self.run_id}/work/metrics.jsonl"
        look = f"grep -q '\"step\",' {metrics} 2>/dev/null && echo yes || true"
        # Seconds on a machine of its own, minutes on one that does ten other things
        self.wait_for("first step", lambda: in_machine(host, look), seconds=300)
        return self

    def rank_pid(self, rank: int, host: str) -> int:
        """Process id of a rank in its container, from the first line of its log."""
        line = in_machine(host, f"head -1 {RUN_ROOT}/{self.run_id}/work/logs/rank-{rank}.log")
        pid = re.search(r"\(pid (\d+)\)", line)
        assert pid, line
        return int(pid[1])

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
        document: dict[str, Any] = json.loads((self.directory / "summary.json").read_text())
        return document
