"""`make clean-up`: what nothing needs any more goes, and only when it is told to."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from commands import RUNS, BackgroundRun, make
from machines import RUN_ROOT, in_machine
from trainings import SHORTEST

OLD = "trainyard/trainer:0123456789ab"
FOREIGN = "somebody/else:1"
LEFT = "20260101T000000Z_left_n1_p1"


def images() -> list[str]:
    return in_machine("node1", "docker images --format '{{.Repository}}:{{.Tag}}'").split()


@pytest.fixture
def littered(ready_cluster: Cluster) -> Iterator[Path]:
    """A node with an image of an older trainer and files of a run; and a run of long ago here."""
    current = next(name for name in images() if name.startswith("trainyard/trainer:"))
    in_machine("node1", f"printf 'FROM {current}\\nLABEL old=yes\\n' | docker build -q -t {OLD} -")
    in_machine("node1", f"docker tag {current} {FOREIGN}; mkdir {RUN_ROOT}/{LEFT}")
    run = BackgroundRun(**SHORTEST)
    assert run.finish().status == 0
    long_ago = time.time() - 40 * 86400
    os.utime(run.directory / "summary.json", (long_ago, long_ago))
    yield run.directory
    in_machine("node1", f"docker rmi -f {OLD} {FOREIGN} || true; rmdir {RUN_ROOT}/{LEFT}")


@pytest.mark.promise("make clean-up")
def test_it_says_first_and_removes_when_told(littered: Path) -> None:
    others = {path.parent for path in RUNS.glob("*/summary.json")} - {littered}
    said = make("clean-up", DAYS=30)
    assert said.status == 0
    needless, _, stays = said.output.partition("Stays")
    assert OLD in needless
    assert littered.name in needless
    assert FOREIGN not in said.output
    assert f"files of a run that are not home: make attach RUN={LEFT}" in " ".join(stays.split())
    assert "Nothing was removed. YES=1 removes what nothing needs." in stays
    assert OLD in images()
    assert littered.is_dir()

    assert make("clean-up", DAYS=30, YES=1).status == 0
    left = images()
    assert OLD not in left
    assert FOREIGN in left
    assert any(name.startswith("trainyard/trainer:") for name in left)
    assert not littered.exists()
    assert all(path.is_dir() for path in others)
    assert in_machine("node1", f"ls {RUN_ROOT}/{LEFT}") == ""
    # What is trained with is still there: nothing is built or sent.
    run = BackgroundRun(**SHORTEST)
    assert run.finish().status == 0
    assert json.loads((run.directory / "summary.json").read_text())["status"] == "succeeded"
    assert "Setting up" not in run.output
