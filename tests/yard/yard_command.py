"""The command as a user starts it, and where recorded data lies."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

DATA = Path(__file__).parent / "data"
REPOSITORY = Path(__file__).parents[2]
RUN_ID = "20261120T112000Z_vit_cifar10_b64_e5_n2_p1"


class Yard:
    """Starts `yard` in a checkout, in a session of its own, as a terminal would."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "ANSIBLE_CONFIG"},
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "yard", *arguments]

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


def made(*arguments: str) -> str:
    """The command that a target of the Makefile comes to."""
    return subprocess.run(
        ["make", "--dry-run", "--no-print-directory", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def wait_for(happened: Callable[[], object], what: str, seconds: float = 60) -> None:
    """Wait for something that another process does."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.1)


def processes_below(root: Path) -> list[str]:
    """Command lines of processes that have something to do with a checkout, this one aside."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        if str(root) in line and int(process.name) != os.getpid():
            found.append(line)
    return found


def interrupt(process: "subprocess.Popen[str]") -> None:
    """Press Ctrl-C: the signal goes to the whole foreground process group."""
    os.killpg(process.pid, signal.SIGINT)
