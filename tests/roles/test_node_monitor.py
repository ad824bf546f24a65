"""The process that looks at a node while somebody reads what it finds."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from node.engine import docker
from node.engine.docker import EngineError
from node.runs import listing as training_node_runs
from node.runs import monitor as training_node_keeper
from yard.plays.answers import WATCHED

pytestmark = pytest.mark.process

RUN = "20261120T112000Z_vit"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node with a run of two ranks, of which the second has said much."""
    container = {"Labels": {"trainyard.run": RUN}, "State": "running"}
    monkeypatch.setattr(training_node_runs, "containers", lambda *asked: [container])
    logs = tmp_path / RUN / "work/logs"
    logs.mkdir(parents=True)
    (logs / "rank-0.log").write_text("rank 0 of 2 on node1 (pid 7)\n")
    (logs / "rank-1.log").write_text("".join(f"line {number}\n" for number in range(5000)))
    (logs / "mpirun.log").write_text("launched\n")
    return tmp_path


@pytest.fixture
def begin(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """Starts the process, which ends 3 s after nobody reads any more; gives its id."""
    monkeypatch.setattr(training_node_keeper, "UNREAD_SECONDS", 3.0)
    begun: list[int] = []

    def start() -> int:
        real = os.fork

        def fork() -> int:
            begun.append(real())
            return begun[-1]

        monkeypatch.setattr(os, "fork", fork)
        assert training_node_keeper.Monitor(str(root), "node1", 0.1).start()
        monkeypatch.setattr(os, "fork", real)
        return begun[-1]

    yield start
    for process in begun:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def found(root: Path) -> Any:
    return json.loads((root / ".watch/state.json").read_text())


def wait_until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_there_is_something_to_read_at_once_and_then_anew(
    root: Path, begin: Callable[[], int]
) -> None:
    begin()
    first = found(root)
    # Of the form that `make top` takes in, and nothing beside it.
    assert WATCHED(first)
    assert [(run["run"], run["state"]) for run in first["runs"]] == [(RUN, "running")]
    assert first["load"]["memory_bytes"] > 0
    assert sorted(first["logs"][RUN]) == ["rank-0.log", "rank-1.log"]
    lines = first["logs"][RUN]["rank-1.log"].splitlines()
    # Whole lines from the end.
    assert lines == [f"line {number}" for number in range(5000 - len(lines), 5000)]
    assert 200 < len(lines) < 400
    assert (root / ".watch").stat().st_mode & 0o777 == 0o700
    wait_until(lambda: found(root)["time"] > first["time"])
    assert first["trouble"] is None
    (root / ".drained").write_text("fan\n")
    wait_until(lambda: (found(root)["trouble"] or {}).get("code") == "drained")


def test_a_bar_that_is_drawn_again_and_again_hides_no_line_before_it(root: Path) -> None:
    drawn = "".join(f"\rEpoch 3/3: {n}/400 [00:10<00:10, loss=0.5]" for n in range(400))
    log = root / RUN / "work/logs/rank-0.log"
    log.write_text(f"epoch 1: loss 2\r\nepoch 2: loss 1\n{drawn}")
    [first, second, bar] = training_node_keeper.ends_of(str(root / RUN))["rank-0.log"].split("\n")
    assert (first, second) == ("epoch 1: loss 2\r", "epoch 2: loss 1")
    assert bar == "Epoch 3/3: 399/400 [00:10<00:10, loss=0.5]"


@pytest.mark.parametrize("written", ["x", "\r"])
def test_what_has_no_end_of_line_is_shown_from_its_end(root: Path, written: str) -> None:
    """To look for a bar in it once for each of its characters took the monitor 20 s, each time."""
    log = root / RUN / "work/logs/rank-0.log"
    log.write_bytes(written.encode() * training_node_keeper.READ_BYTES)
    shown = training_node_keeper.ends_of(str(root / RUN))["rank-0.log"]
    assert shown == written * training_node_keeper.LOG_BYTES


class OpenGpus:
    """GPUs whose driver is asked by a file that has to stay open, as NVML's are."""

    def __init__(self) -> None:
        self._file = os.open("/proc/self/comm", os.O_RDONLY)

    def sample(self) -> list[dict[str, Any]]:
        """One GPU as long as the file is open."""
        try:
            os.pread(self._file, 1, 0)
        except OSError:
            return []
        return [{"index": 0, "process": os.getpid()}]

    def close(self) -> None:
        """Close it."""
        os.close(self._file)


def test_every_look_has_the_load_of_the_gpus(
    root: Path, begin: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_node_keeper, "Gpus", OpenGpus)
    process = begin()
    wait_until(lambda: found(root)["load"]["gpus"] == [{"index": 0, "process": process}])


def test_one_process_serves_all_who_read(root: Path, begin: Callable[[], int]) -> None:
    begin()
    assert not training_node_keeper.Monitor(str(root), "node1", 0.1).start()


def test_it_lives_as_long_as_somebody_reads_and_leaves_nothing(
    root: Path, begin: Callable[[], int]
) -> None:
    process = begin()
    began = time.monotonic()
    while time.monotonic() - began < 4.5:
        (root / ".watch/asked").touch()
        time.sleep(0.1)
    assert (root / ".watch/state.json").exists()
    # It has let go of the module's session, and of the files on which its caller waits.
    assert os.getsid(process) == process
    assert {os.readlink(f"/proc/{process}/fd/{number}") for number in range(3)} == {"/dev/null"}
    others = [os.readlink(path) for path in Path(f"/proc/{process}/fd").iterdir()]
    assert [name for name in others if "pipe:" in name or "socket:" in name] == []
    wait_until(lambda: not (root / ".watch").exists())


def test_a_clock_that_is_set_back_does_not_keep_it_alive(
    root: Path, begin: Callable[[], int]
) -> None:
    begin()
    later = time.time() + 3600
    os.utime(root / ".watch/asked", (later, later))
    wait_until(lambda: not (root / ".watch").exists())


def test_without_an_engine_the_load_is_told(
    root: Path, begin: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*asked: object) -> list[Any]:
        raise EngineError("no answer")

    monkeypatch.setattr(training_node_runs, "containers", silent)
    begin()
    assert found(root)["runs"] == []
    assert found(root)["load"]["memory_bytes"] > 0


def test_an_engine_that_hangs_is_told_before_the_status_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the connection and says nothing, as when dockerd is stopped by a signal."""
    monkeypatch.setattr(docker, "SOCKET", str(tmp_path / "docker.sock"))
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(docker.SOCKET)
        engine.listen()
        began = time.monotonic()
        runs, trouble = training_node_runs.runs_and_trouble(str(tmp_path), "node1")
    assert time.monotonic() - began < 4.5
    assert (runs, trouble and trouble["code"]) == ([], "no_engine")
