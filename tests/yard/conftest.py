"""A checkout whose nodes are folders, recorded runs, and the command as a user starts it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from yard.inventory import Inventory, read_inventory
from yard.project import Project
from yard.run import RunRecord, read_run

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


def wait_for(happened: Callable[[], bool], what: str, seconds: float = 60) -> None:
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


@pytest.fixture(scope="session")
def ready_checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout whose local cluster is set up and holds the data set. Not to be changed."""
    root = tmp_path_factory.mktemp("ready") / "checkout"
    shutil.copytree(DATA / "checkout", root, symlinks=True)
    yard = Yard(root)
    for arguments in (("setup",), ("data", "cifar10")):
        done = yard(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
    return root


@pytest.fixture
def fresh(tmp_path: Path) -> Yard:
    """A checkout in which nothing has been set up."""
    root = tmp_path / "checkout"
    shutil.copytree(DATA / "checkout", root, symlinks=True)
    return Yard(root)


@pytest.fixture
def ready(tmp_path: Path, ready_checkout: Path) -> Iterator[Yard]:
    """A checkout that is set up; no process of it may be left at the end."""
    root = tmp_path / "checkout"
    shutil.copytree(ready_checkout, root, symlinks=True)
    yield Yard(root)
    assert processes_below(root) == []


@pytest.fixture(scope="session")
def lab() -> Inventory:
    """An inventory of two machines."""
    return read_inventory(Project(DATA / "checkout"), DATA / "checkout/inventory/lab")


@pytest.fixture(scope="session")
def local() -> Inventory:
    """An inventory whose nodes set-up makes, before it has made any."""
    return read_inventory(Project(DATA / "checkout"), DATA / "checkout/inventory/local")


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[[str], Path]:
    """Copies a recorded run into a place of its own, under its real name."""

    def copy(case: str) -> Path:
        run = tmp_path / "runs" / RUN_ID
        shutil.copytree(DATA / "runs" / case, run)
        return run

    return copy


@pytest.fixture
def record(recorded: Callable[[str], Path]) -> Callable[[str], RunRecord]:
    """Reads a recorded run."""
    return lambda case: read_run(recorded(case))


def interrupt(process: "subprocess.Popen[str]") -> None:
    """Press Ctrl-C: the signal goes to the whole foreground process group."""
    os.killpg(process.pid, signal.SIGINT)
