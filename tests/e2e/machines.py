"""The machines of the local cluster, past make and Ansible: a shell on each, and Docker."""

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
# For names and networks that no other checkout of this machine has
CHECKOUT_HASH = hashlib.sha256(bytes(CHECKOUT)).hexdigest()
# As for make, which reads the same variable. tests/README.md: a second cluster on one machine.
INVENTORY = os.environ.get("INVENTORY", "inventory/local")
NODES = ("node1", "node2")
# Where runs keep their files on a node
RUN_ROOT = "/srv/trainyard/runs"


def write_inventory(folder: Path, name: str, network: str) -> None:
    """Write the inventory of a local cluster beside the usual one; its keys go beside the folder.

    Args:
        folder: made here.
        name: prefix of its machines.
        network: CIDR.
    """
    document = yaml.safe_load((CHECKOUT / "inventory/local/hosts.yml").read_text())
    document["container_hosts"]["vars"] |= {
        "local_cluster_name": name,
        "local_cluster_network": network,
        "local_cluster_directory": str(folder.parent / "cluster"),
    }
    folder.mkdir()
    (folder / "hosts.yml").write_text(yaml.safe_dump(document))


@cache
def cluster_name() -> str:
    """Name of the local cluster, with which the names of its machines begin."""
    command = ["ansible-inventory", "--inventory", INVENTORY, "--host", "localhost"]
    done = subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True)
    return str(json.loads(done.stdout).get("local_cluster_name", "trainyard"))


def machine(host: str) -> str:
    """Name of the container that is this machine of the local cluster."""
    return f"{cluster_name()}-{host}"


def docker(*arguments: str) -> str:
    """Ask the engine of this computer, whose containers the machines are."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"docker {' '.join(arguments)}\n{done.stdout}{done.stderr}"
    return done.stdout.strip()


def in_machine(host: str, command: str) -> str:
    """Run a shell command as root in a machine of the local cluster, past Ansible and SSH."""
    return docker("exec", machine(host), "sh", "-c", command)


def containers_of_runs(host: str) -> str:
    """Names of all containers of runs on a node, running or not."""
    return in_machine(host, "docker ps --all --quiet --filter label=trainyard.run")


def wait_until_ready(host: str) -> None:
    """Wait for a machine that has just been started: its SSH and its Docker engine."""
    look = "systemctl is-active --quiet ssh docker && docker version > /dev/null 2>&1"
    wait_for(f"{host} to be ready", lambda: in_machine(host, f"{look} && echo yes || true"))


def wait_for(what: str, ready: Callable[[], Any], seconds: float = 300) -> Any:
    """Return what `ready` gives as soon as it gives something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = ready()
        if value:
            return value
        time.sleep(0.2)
    raise AssertionError(f"no {what} after {seconds:g} s")
