"""Faults put into whole runs: noticed in time, diagnosed, nothing left, every log at home.

Each test ends a run in its own way on one cluster. The table at the end says of each how many
seconds passed until it was noticed.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from conftest import (
    CHECKOUT,
    NODES,
    BackgroundRun,
    Outcome,
    in_machine,
    make,
)

# Trains until something ends it.
LONG = {"MODEL": "vit", "NODES": 2, "EPOCHS": 50, "TRAIN_IMAGES": 640, "BATCH": 16}
# Trains a few seconds, the test on all of the test set included.
SHORT = {"MODEL": "vit", "NODES": 2, "EPOCHS": 1, "TRAIN_IMAGES": 128, "BATCH": 16}
NOTICE_SECONDS = 60


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    case: str
    seconds: float | None
    diagnosis: str


TABLE: list[Row] = []


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[None]:
    """A first run sets up what is missing; at the end the table is printed and kept."""
    assert make("train", **SHORT).status == 0
    yield
    lines = [
        "| case | seconds to notice | diagnosis | left behind | logs |",
        "|---|---|---|---|---|",
    ]
    for row in TABLE:
        seconds = "-" if row.seconds is None else f"{row.seconds:.0f}"
        lines.append(f"| {row.case} | {seconds} | {row.diagnosis} | nothing | complete |")
    (CHECKOUT / ".trainyard" / "faults.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def left_behind(run: BackgroundRun) -> list[str]:
    """What a run has left on the nodes: containers, files, locks, processes, shared memory."""
    looks = {
        "container": "docker ps --all --quiet --filter label=trainyard.run",
        "file": "ls --almost-all /srv/trainyard/runs",
        "process": "find /proc -maxdepth 1 -uid 2000",
        "shared memory": "find /dev/shm -uid 2000",
    }
    found = []
    for host in NODES:
        for what, look in looks.items():
            if in_machine(host, look):
                found.append(f"{what} on {host}: {in_machine(host, look)}")
    return found


def conclude(
    case: str,
    run: BackgroundRun,
    struck_at: float,
    host: str,
    signature: str | set[str],
    logs_of: tuple[int, ...] = (0, 1),
) -> Outcome:
    """Wait for the end of a run that must fail, and check all that holds for each fault."""
    outcome = run.finish()
    seconds = run.noticed_at() - struck_at
    assert outcome.status == 1
    diagnosis = run.summary()["diagnosis"]
    expected = {signature} if isinstance(signature, str) else signature
    assert diagnosis["signature"] in expected, diagnosis
    assert diagnosis["host"] == host, diagnosis
    assert diagnosis["proof"]
    for word in (host, diagnosis["cause"], diagnosis["remedy"]):
        assert word in outcome.output
    assert "Traceback" not in outcome.output
    assert seconds < NOTICE_SECONDS
    for rank in logs_of:
        log = run.directory / f"logs/rank-{rank}.log"
        assert log.read_text().startswith(f"rank {rank} of 2 on node{rank + 1} ")
    assert left_behind(run) == []
    TABLE.append(Row(case, seconds, str(diagnosis["signature"])))
    return outcome


def kill(run: BackgroundRun, host: str, name: str, number: int = 9) -> float:
    """Send a signal to the processes of this name in the run's container; returns when."""
    run.in_container(host, f"pkill -{number} -x '{name}'")
    return time.time()


def test_killed_rank() -> None:
    run = BackgroundRun(**LONG).trains()
    run.in_container("node2", f"kill -9 {run.rank_pid(1, 'node2')}")
    conclude("kill -9 of a rank", run, time.time(), "node2", "rank_ended_by_kill")


def test_killed_rank_is_retried_and_its_metrics_are_those_of_one_run() -> None:
    run = BackgroundRun(**{**SHORT, "TRAIN_IMAGES": 320}, RETRIES=1).trains()
    run.in_container("node2", f"kill -9 {run.rank_pid(1, 'node2')}")
    outcome = run.finish()
    assert outcome.status == 0
    assert re.search(r"Failed \(node2: Rank 1 was killed .* retries left: 0", outcome.output)
    summary = run.summary()
    assert (summary["status"], summary["attempts"], summary["steps"]) == ("succeeded", 2, 10)
    assert (run.directory / "attempts/1/logs/rank-1.log").stat().st_size > 0
    assert left_behind(run) == []
    TABLE.append(Row("kill -9 of a rank, RETRIES=1", None, "succeeded"))


def test_killed_mpirun() -> None:
    run = BackgroundRun(**LONG).trains()
    struck_at = kill(run, "node1", "mpirun|prterun")
    conclude("kill -9 of mpirun", run, struck_at, "node1", "mpirun_killed")


@pytest.mark.parametrize("host", NODES)
def test_killed_container(host: str) -> None:
    run = BackgroundRun(**LONG).trains()
    struck_at = time.time()
    in_machine(host, f"docker kill trainyard-{run.run_id}")
    conclude(f"kill of the container on {host}", run, struck_at, host, "container_killed")


def test_killed_sshd_is_not_missed() -> None:
    run = BackgroundRun(**SHORT).trains()
    kill(run, "node2", "sshd")
    assert run.finish().status == 0
    assert left_behind(run) == []
    TABLE.append(Row("kill -9 of sshd while training", None, "succeeded"))
