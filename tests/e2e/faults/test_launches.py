"""Two launches that want the same nodes."""

import json
import re

import pytest
from commands import BackgroundRun, make
from machines import NODES, in_machine, wait_for
from trainings import LONG, SHORT, SHORTEST

from faults.fault import Ledger


def test_second_launch_is_refused_and_locks_do_not_outlive_a_run(ledger: Ledger) -> None:
    run = BackgroundRun(**LONG).trains()
    refused = make("train", **SHORT)
    assert refused.status == 3
    assert re.search(rf"held by run {run.run_id} of \S+@\S+ since", refused.output)
    status = make("status").output
    # A line for each of its nodes, and one for the run with what it has done.
    assert len(re.findall(rf"node[12] +running .* {run.run_id}", status)) == 2
    assert len(re.findall(r"step \d+/\d+ · epoch \d+/5000", status)) == 1
    document = json.loads(make("status", JSON=1).output)
    assert [entry["run"] for entry in document["runs"]] == [run.run_id]
    assert document["runs"][0]["seconds_left"] > 0
    # It fills a terminal, which there is none of here.
    assert make("top").status == 2
    log = make("logs", RUN=run.run_id, RANK=1).output
    assert re.search(r"\[1 node2\] rank 1 of 2 on node2", log)
    assert "[0 node1]" not in log
    # Nobody follows it any more, and its containers die: what is left is a stale lock.
    run.kill_yard()
    for host in NODES:
        in_machine(host, f"docker kill trainyard-{run.run_id}")
    assert make("train", **SHORTEST).status == 0
    assert make("attach", RUN=run.run_id).status == 1
    ledger.conclude("launch while another runs", run, "refused, with its holder")


@pytest.mark.promise("row 19")
def test_two_launches_at_the_same_instant(ledger: Ledger) -> None:
    # Neither ends by itself, so that the other could have the nodes after it.
    runs = BackgroundRun.at_once(2, **LONG)

    def refused() -> BackgroundRun | None:
        return next((run for run in runs if run.process.poll() is not None), None)

    loser = wait_for("a refusal", refused, seconds=300)
    (winner,) = (run for run in runs if run is not loser)
    assert loser.finish().status == 3
    assert winner.run_id in loser.output
    winner.trains()
    assert make("stop", RUN=winner.run_id).status == 0
    assert winner.finish().status == 130
    ledger.conclude("two launches at the same instant", winner, "one runs, one is refused")
