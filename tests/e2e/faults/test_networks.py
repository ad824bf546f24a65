"""Faults of the network between nodes."""

import pytest
from trainings import SHORT, STALLING

from faults.fault import SUCCEEDED, Fault, Ledger, on_machine

# Packets from and to node1, dropped on node2
CUT = "address=$(getent hosts node1 | cut -d' ' -f1); for rule in " + (
    '"INPUT --source $address" "OUTPUT --destination $address"; do iptables {} $rule --jump DROP; '
    "done"
)

FAULTS = (
    Fault(
        "network cut and healed",
        on_machine("node2", CUT.format("--insert")),
        ends=frozenset({"peer_silent", "lost_node"}),
        host="node2",
        options=STALLING,
        mend=on_machine("node2", CUT.format("--delete")),
    ),
    Fault(
        "link slowed down",
        on_machine(
            "node2", "tc qdisc add dev eth0 root tbf rate 20mbit burst 32kbit latency 200ms"
        ),
        ends=SUCCEEDED,
        options=SHORT,
        mend=on_machine("node2", "tc qdisc del dev eth0 root"),
    ),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.case)
def test_fault(fault: Fault, ledger: Ledger) -> None:
    ledger.prove(fault)
