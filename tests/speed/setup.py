#!/usr/bin/env python3
"""Measures how long people wait for set-up: tests/speed/setup.py [--nodes 2,8]

Makes local clusters of its own, apart from the one of inventory/local, and removes them again.
Prints a table and leaves it as .trainyard/speed/setup.json: wall time, and the processor time of
the control node, which the local nodes' own is no part of. Figures are good where the machine does
nothing else; the load at each measurement is beside it.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
DIRECTORY = CHECKOUT / ".trainyard/speed"
# Beside the networks of local clusters and of scenarios.
NETWORK = "10.119.0.0/24"
HOSTS = 1000
# Where make keeps the variables of its command line
OF_MAKE = ("ARGS", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS")


@dataclass(frozen=True)
class Measurement:
    """A thing that people wait for.

    Attributes:
        what: the row of docs/performance.md.
        seconds: wall time.
        processor_seconds: of this program's children: the control node's part.
        load: of the machine before, over one minute.
    """

    what: str
    seconds: float
    processor_seconds: float
    load: float


def measure(what: str, command: Sequence[str | Path]) -> Measurement:
    """Run a command to its end.

    Raises:
        SystemExit: it failed; what it printed is shown.
    """
    load, before, begin = os.getloadavg()[0], _processor_seconds(), time.monotonic()
    run(command)
    seconds = time.monotonic() - begin
    measured = Measurement(what, seconds, _processor_seconds() - before, load)
    print(f"{what:46} {seconds:7.1f} s  processor {measured.processor_seconds:6.1f} s", flush=True)
    return measured


def run(command: Sequence[str | Path]) -> None:
    """Run a command whose time does not count.

    Raises:
        SystemExit: it failed; what it printed is shown.
    """
    # What make was given for this program is not meant for the make of a command.
    environment = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def make(target: str, inventory: Path, *settings: str) -> list[str]:
    """Return the command that makes a target for an inventory."""
    return ["make", target, f"INVENTORY={inventory}", *settings]


@contextmanager
def cluster(nodes: int) -> Iterator[Path]:
    """Make a local cluster of new nodes; yield its inventory, and take it away afterwards."""
    inventory = DIRECTORY / f"nodes-{nodes}"
    inventory.mkdir(parents=True, exist_ok=True)
    variables = {
        "local_cluster_name": "trainyard-speed",
        "local_cluster_size": nodes,
        "local_cluster_max_nodes": nodes,
        "local_cluster_network": NETWORK,
        "local_cluster_directory": "{{ inventory_dir }}/../keys",
        "local_cluster_inventory": "{{ inventory_dir }}/nodes.yml",
    }
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    groups = {
        "container_hosts": {"hosts": {"localhost": local}, "vars": variables},
        "trainers": {"hosts": {}},
        "gpu_nodes": {"hosts": {}},
    }
    (inventory / "hosts.yml").write_text(yaml.safe_dump(groups))
    try:
        run(make("local-up", inventory, f"NODES={nodes}"))
        yield inventory
    finally:
        run(make("local-down", inventory))


def of_cluster(nodes: int) -> Iterator[Measurement]:
    """Measure set-up of new nodes, set-up that has nothing to do, and a look at them."""
    with cluster(nodes) as inventory:
        setup, status = make("setup", inventory), make("status", inventory)
        yield measure(f"first make setup of {nodes} new nodes", setup)
        yield measure(f"second make setup, {nodes} nodes", setup)
        run(status)
        yield measure(f"make status, {nodes} nodes", status)


def of_many_hosts() -> Iterator[Measurement]:
    """Measure what the control node computes for a thousand hosts, none of which is contacted."""
    inventory = DIRECTORY / "large"
    inventory.mkdir(parents=True, exist_ok=True)
    hosts = {
        f"gpu{index:04}": {"ansible_host": f"10.1.{index // 250}.{index % 250 + 1}"}
        for index in range(HOSTS)
    }
    groups = {
        "trainers": {"hosts": hosts, "vars": {"cluster_network": "10.1.0.0/16"}},
        "gpu_nodes": {"hosts": {}},
        "container_hosts": {"hosts": {}},
    }
    (inventory / "hosts.yml").write_text(yaml.safe_dump(groups))
    play = ["ansible-playbook", "--inventory", str(inventory)]
    yield measure(f"inventory of {HOSTS:,} hosts validated", [*play, "playbooks/validate.yml"])
    for role in ("hosts_file", "ssh_trust"):
        command = [*play, "--extra-vars", f"speed_role={role}", "tests/speed/large.yml"]
        yield measure(f"{role} for {HOSTS:,} hosts", command)


def main() -> None:
    """Measure all, and write what was measured."""
    parser = argparse.ArgumentParser(description="Measures how long people wait for set-up.")
    parser.add_argument(
        "--nodes", default="2,8", help="sizes of clusters, with commas; empty: none (%(default)s)"
    )
    sizes = [int(size) for size in parser.parse_args().nodes.split(",") if size]
    measured = list(of_many_hosts())
    if sizes:
        # Building the image is no part of what is measured.
        run(["ansible-playbook", "playbooks/trainer_image.yml", "--limit", "localhost"])
    for size in sizes:
        measured += of_cluster(size)
    results = DIRECTORY / "setup.json"
    results.write_text(json.dumps([asdict(entry) for entry in measured], indent=2) + "\n")
    print(f"{results.relative_to(CHECKOUT)} has them, with the load at each")


if __name__ == "__main__":
    main()
