"""Faults of nodes: their disk, their power."""

import pytest
from commands import BackgroundRun, make
from machines import RUN_ROOT, docker, machine, wait_until_ready
from surroundings import small_disk
from trainings import STALLING

from faults.fault import Fault, Ledger, on_machine, to_machine


def start_again(run: BackgroundRun) -> None:
    """Start node2 again and bring home what it has of the run."""
    docker("start", machine("node2"))
    wait_until_ready("node2")
    # Docker gives a machine that starts a new /etc/hosts.
    assert make("setup").status == 0
    assert make("attach", RUN=run.run_id).status == 1


FAULTS = (
    Fault(
        "disk full on the run directory",
        # Whatever is left goes too: the filler takes the last block, not only the last megabyte.
        on_machine("node1", f"cat /dev/zero > {RUN_ROOT}/filler || true"),
        ends=frozenset({"disk_full", "node_disk_full"}),
        host="node1",
        setting=small_disk,
        mend=on_machine("node1", f"rm {RUN_ROOT}/filler"),
    ),
    Fault(
        "stop of a node",
        to_machine("node2", "kill"),
        ends=frozenset({"lost_node", "peer_silent", "peer_lost", "host_unreachable"}),
        host="node2",
        options=STALLING,
        mend=start_again,
        says=("missing       logs of node2",),
    ),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.case)
def test_fault(fault: Fault, ledger: Ledger) -> None:
    ledger.prove(fault)
