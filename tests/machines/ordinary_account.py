"""An account without root on nodes of a local cluster, and the inventory of who has no other."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

STUDENT = "student"
HOME = f"/home/{STUDENT}"


def add_account(shell: Callable[[str], Any]) -> None:
    """Make the account, which logs in with the keys that root logs in with.

    Args:
        shell: runs a command as root on the node.
    """
    shell(
        f"useradd --create-home --shell /bin/bash {STUDENT} && "
        f"cp -r /root/.ssh {HOME} && chown -R {STUDENT}: {HOME}/.ssh"
    )


def remove_account(shell: Callable[[str], Any]) -> None:
    """End what the account runs, and remove it with its home."""
    shell(f"pkill -u {STUDENT} || true; sleep 0.5")  # 1 where it runs nothing
    shell(f"userdel --remove --force {STUDENT}")


def write_native_inventory(folder: Path, nodes: Path, hosts: Sequence[str]) -> None:
    """Write the inventory of who has that account alone: `RUNTIME=native` is part of it.

    Args:
        nodes: the file with the nodes of the local cluster, where set-up has put the data.
        hosts: those of them that have the account.
    """
    document = yaml.safe_load(nodes.read_text())
    local = document["trainers"]
    variables = {
        **local["vars"],
        "ansible_user": STUDENT,
        "trainyard_runtime": "native",
        "training_node_data": "/srv/trainyard/data",
    }
    folder.mkdir(parents=True, exist_ok=True)
    trainers = {"hosts": {host: local["hosts"][host] for host in hosts}, "vars": variables}
    groups = {"trainers": trainers, "container_hosts": None}
    if "gpu_nodes" in document:
        groups["gpu_nodes"] = document["gpu_nodes"]
    (folder / "hosts.yml").write_text(yaml.safe_dump(groups))
