"""Faults of ranks, of mpirun and of the programs beside them in the containers."""

import pytest
from machines import NODES
from trainings import LONG, SHORT, STALLING

from faults.fault import SUCCEEDED, Fault, Ledger, in_container, on_machine, to_rank

FAULTS = (
    Fault(
        "kill -9 of a rank",
        to_rank(1, "KILL"),
        ends=frozenset({"rank_ended_by_kill"}),
        host="node2",
    ),
    Fault(
        "kill -9 of mpirun",
        in_container("node1", "pkill -KILL -x 'mpirun|prterun'"),
        ends=frozenset({"mpirun_killed"}),
        host="node1",
    ),
    *(
        Fault(
            f"kill of the container on {host}",
            on_machine(host, "docker kill trainyard-{run}"),
            ends=frozenset({"container_killed"}),
            host=host,
        )
        for host in NODES
    ),
    Fault(
        "kill -9 of sshd while training",
        in_container("node2", "pkill -KILL -x sshd"),
        ends=SUCCEEDED,
        options=SHORT,
    ),
    Fault(
        "memory limit hit",
        # Shared memory counts, and no process can be ended for it: the largest one is.
        in_container("node2", "sh -c 'head -c 1G /dev/zero > /dev/shm/filler' || true"),
        ends=frozenset({"container_out_of_memory", "node_out_of_memory"}),
        host="node2",
        options=LONG,
        prepare=on_machine("node2", "docker update --memory 1g --memory-swap 1g trainyard-{run}"),
    ),
    Fault(
        "stalled collective: a rank stands still",
        to_rank(1, "STOP"),
        ends=frozenset({"rank_stopped"}),
        host="node2",
        options=STALLING,
        ranks_say=r"hread 0x\w+ \(most recent call first\):\n  File ",
    ),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.case)
def test_fault(fault: Fault, ledger: Ledger) -> None:
    ledger.prove(fault)
