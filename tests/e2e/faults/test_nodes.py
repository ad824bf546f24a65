"""Faults of nodes: their disk, their power."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from commands import BackgroundRun, make
from machines import RUN_ROOT, docker, in_machine, machine, wait_until_ready
from trainings import STALLING

from faults.fault import Fault, Ledger, on_machine, to_machine


@contextmanager
def small_disk() -> Iterator[None]:
    """Runs have a disk of 1.2 GB on node1."""
    in_machine("node1", f"mount -t tmpfs -o size=1200m,mode=755 tmpfs {RUN_ROOT}")
    try:
        yield
    finally:
        in_machine("node1", f"umount --lazy {RUN_ROOT}")


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
