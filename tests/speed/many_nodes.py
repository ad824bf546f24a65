#!/usr/bin/env python3
"""Measures what a node more costs `make status`: tests/speed/many_nodes.py [8 16 32 64] [--turns 5]

The nodes are those of tests/machines/ssh_machines.py: a mount namespace each with a real sshd. They
have no engine, which every answer says. Prints medians: wall time, and processor time of the
control node alone, without what its nodes use. The latter bears other work beside it.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "tests/machines"))

from ssh_machines import Machine, start  # noqa: E402  # found through the line above
from unpacked_sshd import make_key, why_not  # noqa: E402

# Each has a folder of its own for what nodes keep.
FURTHER = "mount -t tmpfs tmpfs /srv; mkdir -p /srv/trainyard/runs"


def inventory_of(folder: Path, machines: dict[str, Machine]) -> Path:
    """Write the inventory of some machines."""
    (folder / "known_hosts").write_text("".join(one.known for one in machines.values()))
    variables = {
        "ansible_host": "127.0.0.1",
        "ansible_user": "ops",
        "ansible_ssh_private_key_file": str(folder / "key"),
        "ansible_ssh_common_args": f"-F none -o UserKnownHostsFile={folder / 'known_hosts'}",
        "cluster_network": "127.0.0.0/8",
        "training_node_program": "/srv/node",
    }
    hosts = {name: {"ansible_port": one.port} for name, one in machines.items()}
    document = {"trainers": {"hosts": hosts, "vars": variables}, "container_hosts": {"hosts": {}}}
    # Of one name each time, by which the checkout keeps its log
    inventory = folder / "many-nodes/hosts.yml"
    inventory.parent.mkdir(exist_ok=True)
    inventory.write_text(yaml.safe_dump(document))
    return inventory


def turn(inventory: Path) -> tuple[float, float]:
    """One command: wall time, and processor time of the control node."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = ["make", f"--directory={CHECKOUT}", f"INVENTORY={inventory}", f"VENV={sys.prefix}"]
    subprocess.run([*command, "status"], check=True, stdout=subprocess.DEVNULL)
    wall, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", nargs="*", type=int, default=[8, 16, 32, 64], metavar="N")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    if reason := why_not():
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory(prefix="many-nodes.") as place:
        folder = Path(place)
        folder.chmod(0o755)
        key = make_key(folder / "key")
        machines: dict[str, Machine] = {}
        before = None
        for count in sorted(options.counts):
            while len(machines) < count:
                name = f"node{len(machines) + 1}"
                machines[name] = start(folder / name, key, further=FURTHER)
            inventory = inventory_of(folder, machines)
            turn(inventory)  # brings the node program
            walls, used = zip(*(turn(inventory) for _ in range(options.turns)), strict=True)
            line = f"{count:3} nodes: {median(walls):6.2f} s, processor {median(used):6.2f} s"
            if before is not None:
                more = (median(used) - before[1]) / (count - before[0])
                line += f", {1000 * more:4.0f} ms for each node more"
            print(line, flush=True)
            before = count, median(used)
        for one in machines.values():
            one.process.kill()
            one.process.wait()


if __name__ == "__main__":
    main()
