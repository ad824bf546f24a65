"""A checkout whose nodes are folders, and recorded runs."""

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lasting_python import LASTING_PYTHON
from stand_in_nodes import YardHere, read_plainly
from yard_command import DATA, RUN_ID, Yard, processes_below, wait_for

from yard.core.project import Project
from yard.plays import inventory
from yard.plays.inventory import Inventory, parse_inventory
from yard.runs.record import RunRecord, read_run


@pytest.fixture(scope="session")
def ready_checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout whose local cluster is set up and holds the data set. Not to be changed."""
    root = tmp_path_factory.mktemp("ready") / "checkout"
    shutil.copytree(DATA / "checkout", root, symlinks=True)
    yard = YardHere(root)
    for arguments in (("setup",), ("data", "cifar10")):
        done = yard(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
    return root


@pytest.fixture
def fresh(tmp_path: Path) -> YardHere:
    """A checkout in which nothing has been set up; its commands start no process."""
    root = tmp_path / "checkout"
    shutil.copytree(DATA / "checkout", root, symlinks=True)
    return YardHere(root)


@pytest.fixture
def ready(tmp_path: Path, ready_checkout: Path) -> YardHere:
    """A checkout that is set up; its commands start no process."""
    root = tmp_path / "checkout"
    shutil.copytree(ready_checkout, root, symlinks=True)
    return YardHere(root)


@pytest.fixture
def fresh_process(fresh: YardHere) -> Yard:
    """The same as `fresh`, with commands in processes of their own, and Ansible."""
    yard = Yard(fresh.root)
    yard.environment |= LASTING_PYTHON
    return yard


@pytest.fixture
def ready_process(ready: YardHere) -> Iterator[Yard]:
    """The same as `ready`, with Ansible; no process of it may be left at the end."""
    yard = Yard(ready.root)
    yard.environment |= LASTING_PYTHON
    yield yard
    wait_for(lambda: processes_below(ready.root) == [], "its processes to end", 10)


@pytest.fixture
def plain_inventories(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has inventories read without Ansible."""
    monkeypatch.setattr(inventory, "recall", read_plainly)


@pytest.fixture(autouse=True)
def no_ansible(request: pytest.FixtureRequest) -> None:
    """A test that starts no process has inventories read without Ansible."""
    if request.node.get_closest_marker("process") is None:
        request.getfixturevalue("plain_inventories")


@pytest.fixture(scope="session")
def lab() -> Inventory:
    """An inventory of two machines."""
    return _inventory("lab")


@pytest.fixture(scope="session")
def local() -> Inventory:
    """An inventory whose nodes set-up makes, before it has made any."""
    return _inventory("local")


def _inventory(name: str) -> Inventory:
    path = DATA / "checkout/inventory" / name
    return parse_inventory(read_plainly(Project(DATA / "checkout"), path), path)


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


def pytest_configure() -> None:
    """Let Ctrl-C reach what tests start.

    A shell without a terminal starts what it puts into the background with SIGINT ignored, and
    programs inherit that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
