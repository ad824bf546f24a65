"""Trainings on four nodes: on all of them, and on those that are left when one dies."""

from collections.abc import Iterator

import pytest
from cluster import Cluster
from commands import BackgroundRun, make
from machines import RUN_ROOT, docker, in_machine, machine, wait_until_ready
from trainings import SHORT, SHORTEST, STALLING

NODES = ["node1", "node2", "node3", "node4"]
pytestmark = pytest.mark.nodes(len(NODES))


@pytest.fixture
def dead_node(cluster: Cluster) -> Iterator[str]:
    """A node that a test may kill; it is back, and set up, when the test has ended."""
    yield "node4"
    docker("start", machine("node4"))
    wait_until_ready("node4")
    # Docker gives a machine that starts a new /etc/hosts.
    assert make("setup").status == 0
    # A run that has ended on the other nodes does not fetch what its first attempt left here.
    in_machine("node4", "docker ps -aq --filter label=trainyard.run | xargs -r docker rm -f")
    in_machine("node4", f"find {RUN_ROOT} -mindepth 1 -delete")


def test_a_training_on_all_of_them() -> None:
    run = BackgroundRun(**{**SHORTEST, "NODES": 4})
    assert run.finish().status == 0
    summary = run.summary()
    assert (summary["hosts"], summary["world_size"]) == (NODES, 4)
    for rank, host in enumerate(NODES):
        log = (run.directory / f"logs/rank-{rank}.log").read_text()
        assert log.startswith(f"rank {rank} of 4 on {host} ")


def test_a_retry_goes_on_without_a_node_that_died(dead_node: str) -> None:
    wish = {**STALLING, "EPOCHS": SHORT["EPOCHS"], "NODES": "2..4", "RETRIES": 1}
    run = BackgroundRun(**wish).trains()
    docker("kill", machine(dead_node))
    outcome = run.finish(seconds=600)
    assert outcome.status == 0, outcome.output
    summary = run.summary()
    assert (summary["status"], summary["attempts"]) == ("succeeded", 2)
    assert summary["hosts"] == NODES[:3]
    assert dead_node in outcome.output
