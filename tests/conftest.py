"""What tests of all folders share: marks, and the part of them that is run.

`process`: the test starts a process. Others are refused one, so that they stay quick, and the
Docker engine, so that they pass where there is none.
`promise`: the test is the one that proves it (tests/circles/promises.py).
"""

import os
import sys
from collections.abc import Iterator

import pytest
from promises import of_compact_set, read_promises

STARTS = frozenset(
    {
        *("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"),
        "pty.spawn",
    }
)
# The test that runs now, if it must start no process, and what was said to it
guarded: list[str] = []
refused: list[str] = []


def refuse_processes(event: str, arguments: tuple[object, ...]) -> None:
    """Python calls this before it starts a process or connects to something (PEP 578)."""
    if not guarded:
        return
    if event in STARTS:
        what = f"{event}: {arguments[0] if arguments else ''}"
        refused.append(f"{guarded[0]} starts a process ({what}): mark it with @pytest.mark.process")
        pytest.fail(refused[0])
    if event == "socket.connect" and arguments[1] == "/var/run/docker.sock":
        refused.append(f"{guarded[0]} asks the Docker engine, which a new machine does not have")
        pytest.fail(refused[0])


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option that chooses a part of the tests."""
    parser.addoption(
        "--part",
        choices=["compact", "rest", "all"],
        default="all",
        help="compact: what starts no process, and what proves a promise, as make test does; "
        "rest: the others (default: all)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks, have Python tell of processes, and forget the make that runs the tests.

    It would tell what was typed behind it to each make that a test starts.
    """
    for name in [name for name in os.environ if name.startswith("MAKE")]:
        del os.environ[name]
    config.addinivalue_line("markers", "process: the test starts a process")
    config.addinivalue_line("markers", "promise(name, ...): the test is the proof of these")
    sys.addaudithook(refuse_processes)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of the part that is asked for."""
    part = config.getoption("part")
    if part == "all":
        return
    promises = of_compact_set(read_promises(config.rootpath))

    def is_compact(item: pytest.Item) -> bool:
        named = {name for mark in item.iter_markers("promise") for name in mark.args}
        starts_one = item.get_closest_marker("process") or item.path.is_relative_to(
            config.rootpath / "tests/e2e"
        )
        return not starts_one or bool(named & promises)

    chosen = [item for item in items if is_compact(item) == (part == "compact")]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen


def guard(item: pytest.Item) -> Iterator[None]:
    """Refuse the test a process, unless it is marked."""
    if item.get_closest_marker("process") or "e2e" in item.path.parts:
        return (yield)
    guarded.append(item.nodeid)
    refused.clear()
    try:
        return (yield)
    finally:
        guarded.clear()
        # What the test starts in a thread, or with a library, may have kept it to itself.
        if refused:
            pytest.fail(refused[0])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Guard what the fixtures of a test do."""
    return (yield from guard(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Guard the test itself."""
    return (yield from guard(item))
