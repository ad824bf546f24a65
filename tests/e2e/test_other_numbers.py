"""Each setting that has one place changed once: account, number, port, folder and interface.

A cluster of its own beside that of the other tests: what is named in a second place shows here.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from commands import RUNS, Outcome, make
from machines import CHECKOUT_HASH, NODES, docker, write_inventory
from trainings import SHORTEST

NAME = f"numbers-{CHECKOUT_HASH[:4]}"
# Another one than that of test_local_cluster.py
NETWORK = f"10.117.{(int(CHECKOUT_HASH[:2], 16) + 127) % 254 + 1}"
ACCOUNT, NUMBER, PORT, FOLDER, INTERFACE = "researcher", 2777, 2300, "/data/lab", "train0"
SITE = {
    "trainyard_user": ACCOUNT,
    "trainyard_uid": NUMBER,
    "trainyard_root": FOLDER,
    "training_node_ssh_port": PORT,
}
# As a machine has it whose kernel names its cards otherwise.
RENAME = f"""
gateway=$(ip route show default | cut -d ' ' -f 3)
ip link set eth0 down && ip link set eth0 name {INTERFACE} && ip link set {INTERFACE} up
ip route add default via "$gateway"
"""
PROGRAM = """
import os
import torch.distributed as dist
dist.init_process_group("gloo")
told = [None] * dist.get_world_size()
dist.all_gather_object(told, (os.getuid(), os.getgid(), os.environ["GLOO_SOCKET_IFNAME"]))
print("told", sorted(told))
"""


def in_node(host: str, command: str) -> str:
    return docker("exec", f"{NAME}-{host}", "sh", "-c", command)


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two nodes that are set up with these numbers."""
    inventory = tmp_path_factory.mktemp("numbers") / NAME
    write_inventory(inventory, NAME, f"{NETWORK}.0/24")
    (inventory / "group_vars/all").mkdir(parents=True)
    (inventory / "group_vars/all/site.yml").write_text(yaml.safe_dump(SITE))
    try:
        assert make("local-up", NODES=2, INVENTORY=inventory).status == 0
        in_node("node2", RENAME)
        assert make("setup", INVENTORY=inventory).status == 0
        yield inventory
    finally:
        assert make("local-down", INVENTORY=inventory).status == 0


@pytest.fixture(scope="module")
def trained(inventory: Path) -> Outcome:
    return make("train", **SHORTEST, INVENTORY=inventory)


def test_the_trainer_trains(trained: Outcome) -> None:
    assert trained.status == 0
    run = (RUNS / "latest").resolve()
    assert json.loads((run / "summary.json").read_text())["world_size"] == 2
    for node in NODES:
        log = (run / f"nodes/{node}/container.log").read_text()
        assert re.search(rf"Server listening on {NETWORK}\.\d+ port {PORT}\.", log)


def test_ranks_have_the_account_and_the_interface(inventory: Path, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(PROGRAM)
    assert make("train", CODE=tmp_path, NODES=2, INVENTORY=inventory).status == 0
    log = ((RUNS / "latest").resolve() / "logs/rank-0.log").read_text()
    ranks = [(NUMBER, NUMBER, name) for name in ("eth0", INTERFACE)]
    assert f"told {ranks}" in log


def test_nodes_have_the_account_and_the_folder_alone(inventory: Path, trained: Outcome) -> None:
    for node in NODES:
        assert in_node(node, f"id {ACCOUNT}").startswith(f"uid={NUMBER}({ACCOUNT}) gid={NUMBER}(")
        assert set(in_node(node, f"ls {FOLDER}").split()) >= {"data", "runs"}
        assert in_node(node, "id trainer 2>&1; ls /srv/trainyard 2>&1; true").count("no such") == 1
        assert in_node(node, "ls /srv") == ""


def test_the_cluster_is_fit(inventory: Path) -> None:
    assert make("verify", CHECKS="nodes,ssh,mpi,containers", INVENTORY=inventory).status == 0
    assert make("status", INVENTORY=inventory).status == 0
