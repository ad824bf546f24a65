"""When a run counts as hanging."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from trainer.heartbeat import COMPUTES, WAITS
from trainer.launch import Limits, Watch

BEGAN = 1000.0


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (tmp_path / "ranks").mkdir()
    return tmp_path


def beat(run_dir: Path, rank: int, moment: float) -> None:
    """Leave a rank's sign of life."""
    file = run_dir / "ranks" / f"{rank}.beat"
    file.touch()
    os.utime(file, (moment, moment))


def test_a_start_that_takes_too_long(run_dir: Path) -> None:
    watch = Watch(run_dir, Limits(start=60, stall=5), BEGAN)
    beat(run_dir, 0, BEGAN)
    assert watch.trouble(BEGAN + 59) is None
    assert watch.trouble(BEGAN + 60) == "the ranks have not begun to train within 60 s"


def test_one_rank_that_gets_on_is_enough(run_dir: Path) -> None:
    watch = Watch(run_dir, Limits(start=60, stall=5), BEGAN)
    (run_dir / "metrics.jsonl").touch()
    beat(run_dir, 0, BEGAN + 100)
    beat(run_dir, 1, BEGAN + 103)
    assert watch.trouble(BEGAN + 107) is None
    assert watch.trouble(BEGAN + 108) == "no rank of this node has got on for 5 s"


def test_without_limits_a_run_may_hang(run_dir: Path) -> None:
    watch = Watch(run_dir, Limits(start=0, stall=0), BEGAN)
    assert watch.trouble(BEGAN + 1e6) is None
    (run_dir / "metrics.jsonl").touch()
    beat(run_dir, 0, BEGAN)
    assert watch.trouble(BEGAN + 1e6) is None


def test_a_full_disk() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        run_dir = Path(directory)
        (run_dir / "ranks").mkdir()
        watch = Watch(run_dir, Limits(start=0, stall=0), BEGAN)
        assert watch.trouble(BEGAN) is None
        disk = os.statvfs(run_dir)
        (run_dir / "filler").write_bytes(bytes(disk.f_bavail * disk.f_frsize - 500_000))
        assert watch.trouble(BEGAN) == f"the disk of {run_dir} is full"


def test_a_rank_that_computes_is_not_taken_for_one_that_waits(run_dir: Path) -> None:
    began = time.time() - 3
    watch = Watch(run_dir, Limits(start=60, stall=1), began)
    (run_dir / "metrics.jsonl").touch()
    beat(run_dir, 0, began)
    environment = {**os.environ, "OMPI_COMM_WORLD_RANK": "0"}
    command = [sys.executable, "-c", "while True: pass"]
    found = []
    with subprocess.Popen(command, env=environment) as rank:
        # The second time it says that it waits: Horovod's wait looks all the time.
        for state in (COMPUTES, WAITS):
            (run_dir / "ranks/0.beat").write_bytes(state)
            beat(run_dir, 0, began)
            for _ in range(6):
                time.sleep(0.3)
                trouble = watch.trouble(time.time())
            found.append(trouble)
        rank.kill()
    assert found == [None, "no rank of this node has got on for 1 s"]
