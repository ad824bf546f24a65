"""What people do to a training under way: they follow its logs, and stop it."""

import json
import os
import re
from dataclasses import dataclass

import pexpect
import pytest
from cluster import Cluster
from commands import BackgroundMake, BackgroundRun, Outcome, make
from machines import CHECKOUT
from trainings import LONG

# On a node each: one that goes on until it is stopped, one that is through a while after that
STOPPED = {**LONG, "NODES": 1}
BESIDE = {**STOPPED, "EPOCHS": 6, "TRAIN_IMAGES": 1920}


@dataclass(frozen=True)
class Stop:
    """A training that was stopped while another one ran beside it.

    Attributes:
        run, beside: the one that was stopped, and the other.
        outcome, beside_outcome: how their commands ended.
        stop: how `make stop` ended.
        logs: how `make logs FOLLOW=1` ended, which followed the stopped one.
        top: the keys of `make top`, and what it showed after each.
        beside_was_under_way: whether the other still trained when the ranks of the stopped one
            had ended.
    """

    run: BackgroundRun
    outcome: Outcome
    beside: BackgroundRun
    beside_outcome: Outcome
    stop: Outcome
    logs: Outcome
    top: dict[str, str]
    beside_was_under_way: bool


@pytest.fixture(scope="module")
def stopped(cluster: Cluster) -> Stop:
    """Stop a training by its id, beside another one."""
    cluster.make_ready()
    run = BackgroundRun(**STOPPED).trains("node1")
    beside = BackgroundRun(**BESIDE).trains("node2")
    logs = BackgroundMake("logs", RUN=run.run_id, FOLLOW=1)
    logs.wait_for_output("[0 node1] rank 0 of 1 on node1")
    top = look_at(run.run_id)
    stop = make("stop", RUN=run.run_id)
    outcome, beside_outcome = run.finish(), beside.finish()
    # Not by a record of the stopped rank: on a busy machine mpirun kills it before it writes one.
    other = json.loads((beside.directory / "ranks/0.json").read_text())
    under_way = other["started_at"] < run.noticed_at() < other["ended_at"]
    return Stop(run, outcome, beside, beside_outcome, stop, logs.finish(60), top, under_way)


def look_at(run: str) -> dict[str, str]:
    """Have `make top` show nodes and runs, and then what the rank of a run prints."""
    size = {"COLUMNS": "140", "LINES": "40", "TERM": "xterm-256color"}
    screen = pexpect.spawn(
        "make",
        ["top"],
        cwd=str(CHECKOUT),
        env={**os.environ, **size},
        dimensions=(40, 140),
        timeout=90,
        encoding="utf-8",
    )
    shown = {}
    try:
        for key, last in (("", r"step \d+/\d+"), (f"/{run}\r\r", "rank 0 on node1")):
            screen.send(key)
            screen.expect(last)
            shown[key] = re.sub(r"\x1b\[[\d;]*m", "", screen.before + screen.after)
        screen.send("q")
        screen.expect(pexpect.EOF)
    finally:
        screen.close(force=True)
    assert screen.exitstatus == 0
    return shown


def test_a_stopped_training_ends_with_its_logs_at_home(stopped: Stop) -> None:
    assert stopped.stop.status == 0
    assert stopped.outcome.status == 130
    assert stopped.run.summary()["status"] == "stopped"
    log = (stopped.run.directory / "logs/rank-0.log").read_text()
    assert log.startswith("rank 0 of 1 on node1 ")


def test_top_shows_nodes_runs_and_what_ranks_print(stopped: Stop) -> None:
    cluster, rank = stopped.top.values()
    assert "2 nodes, 2 runs" in cluster
    assert re.search(r"node1.*running.*\d %.*GB of", cluster)
    assert "rank 0 on node1" in rank


@pytest.mark.promise("row 28", "make stop")
def test_the_run_beside_it_does_not_notice(stopped: Stop) -> None:
    assert stopped.beside_was_under_way
    assert stopped.beside_outcome.status == 0
    summary = stopped.beside.summary()
    assert (summary["status"], summary["hosts"]) == ("succeeded", ["node2"])
    assert (summary["attempts"], summary["steps"]) == (1, 6 * 1920 // 16)


@pytest.mark.promise("make logs", "make logs RUN= RANK=1 FOLLOW=1")
def test_logs_are_followed_to_the_end(stopped: Stop) -> None:
    assert stopped.logs.status == 0
    log = (stopped.run.directory / "logs/rank-0.log").read_text()
    shown = [line for line in stopped.logs.output.splitlines() if line.startswith("[0 node1] ")]
    assert shown == [f"[0 node1] {line}" for line in log.splitlines()]
