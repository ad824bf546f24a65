"""Trainings on four nodes: on all of them, and on those that are left when one dies."""

import os
import re
from collections.abc import Iterable, Iterator

import pytest
from cluster import Cluster
from commands import BackgroundRun, make
from disturbances import power_on
from machines import RUN_ROOT, docker, in_machine, machine
from trainings import SHORTEST, STALLING

NODES = ["node1", "node2", "node3", "node4"]
pytestmark = pytest.mark.nodes(len(NODES))


@pytest.fixture
def dead_node(cluster: Cluster) -> Iterator[str]:
    """The first node, which a test may kill; it is back, and set up, when the test has ended."""
    yield "node1"
    # A run that has ended on the other nodes does not fetch what its first attempt left here.
    power_on("node1")()


@pytest.mark.promise("make train MODEL=vit NODES=4 PROCS_PER_NODE=2")
def test_a_training_on_all_of_them() -> None:
    run = BackgroundRun(**{**SHORTEST, "NODES": 4})
    assert run.finish().status == 0
    summary = run.summary()
    assert (summary["hosts"], summary["world_size"]) == (NODES, 4)
    for rank, host in enumerate(NODES):
        log = (run.directory / f"logs/rank-{rank}.log").read_text()
        assert log.startswith(f"rank {rank} of 4 on {host} ")


def newest(names: Iterable[str]) -> int:
    """The epoch of the newest checkpoint among files; 0 where there is none."""
    found = [re.fullmatch(r"epoch-(\d+)\.pt", name) for name in names]
    return max((int(match[1]) for match in found if match), default=0)


def test_a_retry_goes_on_from_a_copy_of_the_checkpoint_where_the_first_node_died(
    dead_node: str,
) -> None:
    # All stay: on a fast machine one would be gone before it has been copied.
    more = {"NODES": "2..4", "RETRIES": 1, "ARGS": "--set keep_checkpoints=1000"}
    run = BackgroundRun(**{**STALLING, **more}).trains()
    home = run.directory / "checkpoints"
    run.wait_for("a checkpoint at home", lambda: home.is_dir() and newest(os.listdir(home)))
    events = run.directory / "tensorboard"
    run.wait_for("TensorBoard's events at home", lambda: any(events.glob("*tfevents*")))
    # The next checkpoint comes home in a minute at the earliest. The copies are newer.
    listing = f"ls {RUN_ROOT}/{run.run_id}/work/copies/checkpoints 2>/dev/null || true"
    run.wait_for(
        "a newer copy on node2",
        lambda: newest(in_machine("node2", listing).split()) > newest(os.listdir(home)),
    )
    at_home = newest(os.listdir(home))
    docker("kill", machine(dead_node))
    run.wait_for_output("It starts from its newest checkpoint; retries left: 0.")
    log = f"{RUN_ROOT}/{run.run_id}/work/logs/rank-0.log"
    # Until it begins there is no such log.
    goes_on = f"grep 'resuming after epoch' {log} 2>/dev/null || true"
    run.wait_for("the second attempt", lambda: in_machine("node2", goes_on))
    # It ends the run where it is, and says that the dead node cannot be asked.
    stopped = make("stop", RUN=run.run_id)
    assert stopped.status == 1
    assert f"{dead_node} " in stopped.output
    outcome = run.finish(seconds=600)
    assert outcome.status == 130, outcome.output
    assert f"Failed ({dead_node}: " in outcome.output
    summary = run.summary()
    assert (summary["status"], summary["attempts"]) == ("stopped", 2)
    assert summary["hosts"] == NODES[1:]
    first_log = (run.directory / "logs/rank-0.log").read_text()
    resumed = re.search(r"resuming after epoch (\d+)", first_log)
    assert resumed is not None, first_log
    assert int(resumed[1]) > at_home
    # The files of the attempt that failed are home too, but for those of the node that is gone.
    assert (run.directory / "attempts/1/logs/rank-1.log").is_file()
