#!/usr/bin/env python3
"""Measures `make status`: tests/speed/status.py INVENTORY [--turns 9] [--beside CHECKOUT]

Takes turns between this checkout and another one, of an older commit, if one is named: both ask the
nodes of one local cluster that is set up. Prints medians: wall time, processor time of the control
node, and of each node what its control group used meanwhile, less what it uses without a command.
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT))

from node.engine.docker import get  # noqa: E402  # found through the line above

WAIT = 1.0  # between two commands, for what a node does after it has answered, in seconds


def node_seconds(containers: Sequence[str]) -> float:
    """Processor time that containers have used since they began, as the engine counts it."""
    options: dict[str, Any] = {"stream": "false", "one-shot": "true"}
    told = [get(f"/containers/{container}/stats", 5.0, **options) for container in containers]
    return sum(float(stats["cpu_stats"]["cpu_usage"]["total_usage"]) for stats in told) / 1e9


def here_seconds() -> float:
    """Processor time of this program's children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def turn(checkout: Path, inventory: Path, containers: Sequence[str]) -> tuple[float, float, float]:
    """One command: wall time, processor time of the control node, and of one node."""
    time.sleep(WAIT)
    idle = node_seconds(containers)
    time.sleep(WAIT)
    before = node_seconds(containers)
    idle = (before - idle) / WAIT
    here, begin = here_seconds(), time.monotonic()
    command = ["make", f"--directory={checkout}", f"INVENTORY={inventory}", f"VENV={sys.prefix}"]
    subprocess.run([*command, "status"], check=True, stdout=subprocess.DEVNULL)
    wall = time.monotonic() - begin
    used = node_seconds(containers) - before - idle * wall
    return wall, here_seconds() - here, used / len(containers)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("inventory", type=Path)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--beside", type=Path)
    options = parser.parse_args()
    inventory = options.inventory.resolve()
    cluster = yaml.safe_load((inventory / "hosts.yml").read_text())["container_hosts"]["vars"]
    nodes = yaml.safe_load((inventory / "nodes.yml").read_text())["trainers"]["hosts"]
    name = cluster.get("local_cluster_name", "trainyard")
    containers = [f"{name}-{node}" for node in nodes]
    checkouts = [CHECKOUT, *([options.beside.resolve()] if options.beside else [])]
    for checkout in checkouts:
        turn(checkout, inventory, containers)  # what is kept from one command to the next
    turns: dict[Path, list[tuple[float, float, float]]] = {checkout: [] for checkout in checkouts}
    for _ in range(options.turns):
        for checkout in checkouts:
            turns[checkout].append(turn(checkout, inventory, containers))
    for checkout in checkouts:
        wall, here, node = map(median, zip(*turns[checkout], strict=True))
        print(f"{wall:6.2f} s  control node {here:5.2f} s  each node {node:6.3f} s  {checkout}")


if __name__ == "__main__":
    main()
