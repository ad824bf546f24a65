"""`make verify` on the usual nodes, each part of it once; test_verify.py has four."""

import json
import os

import pytest
from cluster import Cluster
from machines import NODES
from verdicts import Fault, broken, verify


@pytest.mark.promise("row 7", "row 8", "row 11", "make verify")
def test_programs_run_over_all_nodes_and_each_tells_what_it_is(ready_cluster: Cluster) -> None:
    verdict = verify("")
    assert verdict.outcome.status == 0
    assert verdict.document["faults"] == []
    said = {(check["name"], check.get("host")) for check in verdict.document["checks"]}
    assert {(name, node) for name in ("Open MPI", "UCX") for node in NODES} <= said
    # A program that mpicc has compiled, on all of them
    assert "MPI" in {name for name, _ in said}
    hardware = json.loads((verdict.directory / "nodes.json").read_text())
    assert list(hardware) == list(NODES)
    for node in hardware.values():
        assert node["cpu"]["threads"] == os.cpu_count()
        assert node["memory_bytes"] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        assert {disk["kind"] for disk in node["disks"]} <= {"SSD", "HDD", "NVMe", "virtual"}
        assert node["nics"][0]["mac"]


@pytest.mark.promise("row 10")
def test_a_slow_network_is_measured_and_named(ready_cluster: Cluster) -> None:
    slow = Fault(
        "node2",
        "tc qdisc add dev eth0 root tbf rate 1mbit burst 16kb latency 100ms",
        "tc qdisc del dev eth0 root",
        "pairs",
        "bandwidth",
        "at least",
    )
    with broken(slow):
        verdict = verify(slow.checks)
    assert verdict.outcome.status == 3
    (who,) = verdict.blamed
    assert slow.says in verdict.causes(who)[slow.check]
    assert who in verdict.outcome.output
