"""`make local-up` and `make local-down`, with a cluster beside that of the other tests."""

import hashlib
from pathlib import Path

import pytest
import yaml
from commands import make
from machines import CHECKOUT_HASH, NODES, docker, in_machine, write_inventory

NAME = f"passing-{CHECKOUT_HASH[:4]}"
# 10.117.0.0/24 is the local cluster's.
NETWORK = f"10.117.{int(CHECKOUT_HASH[:2], 16) % 254 + 1}.0/24"


def of_the_cluster() -> dict[str, list[str]]:
    """What this machine has of the cluster: containers, volumes, networks and their bridges."""
    networks = docker("network", "ls", "--filter", f"name=^{NAME}$", "--format", "{{.ID}}").split()
    bridge = f"ty-{hashlib.sha256(NAME.encode()).hexdigest()[:10]}"
    return {
        "containers": docker("ps", "--all", "--quiet", "--filter", f"name={NAME}-").split(),
        "volumes": docker("volume", "ls", "--quiet", "--filter", f"name={NAME}-").split(),
        "networks": networks,
        "bridges": [path.name for path in Path("/sys/class/net").glob(bridge)],
    }


@pytest.mark.promise("make local-up", "make local-down")
@pytest.mark.usefixtures("ready_cluster")
def test_local_down_leaves_nothing_and_touches_no_other_cluster(tmp_path: Path) -> None:
    inventory = tmp_path / NAME
    write_inventory(inventory, NAME, NETWORK)
    others = {host: in_machine(host, "cat /proc/1/stat | cut -d' ' -f22") for host in NODES}
    try:
        assert make("local-up", NODES=1, INVENTORY=inventory).status == 0
        there = of_the_cluster()
        assert {what: len(items) for what, items in there.items()} == dict.fromkeys(there, 1)
        nodes = yaml.safe_load((inventory / "nodes.yml").read_text())
        assert list(nodes["trainers"]["hosts"]) == ["node1"]
    finally:
        down = make("local-down", INVENTORY=inventory)
    assert down.status == 0
    assert of_the_cluster() == {what: [] for what in there}
    assert not (inventory / "nodes.yml").exists()
    assert list((tmp_path / "cluster").iterdir()) == []
    # The first process of each other node began when it did before.
    assert others == {host: in_machine(host, "cat /proc/1/stat | cut -d' ' -f22") for host in NODES}
