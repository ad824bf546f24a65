"""One site of rented machines from the first command to the last.

EC2 is a stand-in (tests/machines/ec2_stand_in.py). The machines are real: a node of a local cluster
stands behind each, with the addresses, the account and the key that EC2 says, and no other way in.
"""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ec2_stand_in
import pytest
import yaml
from commands import RUNS, Outcome, make
from ec2_stand_in import REGION, Ec2
from machines import CHECKOUT, CHECKOUT_HASH, docker, write_inventory
from trainings import SHORTEST

NAME = f"rented-{CHECKOUT_HASH[:4]}"
# 10.117.0.0/24 is the local cluster's.
NETWORK = f"10.117.{int(CHECKOUT_HASH[2:4], 16) % 254 + 1}.0/24"
# Account of Debian's images on EC2
ADMIN = "admin"


@dataclass
class Machines:
    """Nodes of a local cluster, of which each becomes a machine of EC2.

    Attributes:
        free: addresses of nodes behind which there is no machine yet, by container.
        behind: the container of a machine, by the machine's id.
        routes: public addresses that lead to nodes.
    """

    ec2: Ec2
    free: dict[str, str]
    behind: dict[str, str] = field(default_factory=dict)
    routes: list[str] = field(default_factory=list)

    def start(self, started: Iterable[Any]) -> None:
        """Give nodes what EC2 says of machines that start, and their host keys to the consoles."""
        for machine in started:
            container, address = self.free.popitem()
            self.behind[machine.id] = container
            # The interface has the private address alone. To this machine, and to the packages
            # behind it, the node goes by the others.
            in_node(
                container,
                "gateway=$(ip route show default | cut -d' ' -f3) && "
                "ip address flush dev eth0 && "
                f"ip address add {machine.private_ip}/20 dev eth0 && "
                f"ip address add {machine.public_ip}/32 dev lo && "
                f"ip address add {address}/32 dev lo && "
                f"ip route add default via $gateway dev eth0 onlink src {address}",
            )
            ip("route", "replace", f"{machine.public_ip}/32", "via", address)
            self.routes.append(machine.public_ip)
            [imported] = [c for c in self.ec2.calls if c.action == "ImportKeyPair"]
            public = base64.b64decode(imported.parameters["PublicKeyMaterial"]).decode()
            # As cloud-init does: an account that becomes root without a password, and no way for
            # root itself.
            in_node(container, f"useradd --create-home --shell /bin/bash {ADMIN}")
            in_node(
                container, f"echo '{ADMIN} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/90-{ADMIN}"
            )
            in_node(container, f"install -d -m 700 -o {ADMIN} ~{ADMIN}/.ssh")
            in_node(container, f"echo '{public.strip()}' > ~{ADMIN}/.ssh/authorized_keys")
            in_node(container, "rm /root/.ssh/authorized_keys")
            key = in_node(container, "cat /etc/ssh/ssh_host_ed25519_key.pub").split()[1]
            self.ec2.host_keys[machine.id] = key

    def end(self, ids: Iterable[str]) -> None:
        """Switch the nodes of machines off that end."""
        for identity in ids:
            docker("stop", "--time", "1", self.behind[identity])

    def clear(self) -> None:
        """Take the ways back that lead to nodes."""
        for address in self.routes:
            ip("route", "delete", f"{address}/32")


def in_node(container: str, command: str) -> str:
    """Run a shell command in a node."""
    return docker("exec", container, "sh", "-c", command)


def ip(*arguments: str) -> None:
    """Change this machine's table of routes."""
    subprocess.run(["ip", *arguments], check=True)


def remove(folder: Path) -> None:
    """Remove a folder that `make destroy` has left, because it failed."""
    if folder.exists():
        shutil.rmtree(folder)


@dataclass(frozen=True)
class Story:
    """How each command ended.

    Attributes:
        run: the run's directory.
        behind: containers behind machines, by the machines' ids.
        running: whether they still run after `make destroy`.
        left: machines that EC2 has then.
    """

    outcomes: Mapping[str, Outcome]
    run: Path
    behind: Mapping[str, str]
    running: Mapping[str, str]
    left: list[Any]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Nodes as they come, on which nothing has been set up, and EC2 in front of them."""
    folder = tmp_path_factory.mktemp(NAME) / "inventory"
    write_inventory(folder, NAME, NETWORK)
    with ExitStack() as stack:
        ec2 = stack.enter_context(ec2_stand_in.running())
        stack.callback(make, "local-down", INVENTORY=folder)
        assert make("local-up", INVENTORY=folder, NODES=2).status == 0
        hosts = yaml.safe_load((folder / "nodes.yml").read_text())["trainers"]["hosts"]
        nodes = {f"{NAME}-{host}": str(of["ansible_host"]) for host, of in hosts.items()}
        machines = Machines(ec2, nodes)
        stack.callback(machines.clear)
        ec2.started, ec2.ended = machines.start, machines.end
        yield machines


@pytest.fixture(scope="module")
def story(machines: Machines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Rent, set up, train, and give back."""
    folder = tmp_path_factory.mktemp("site")
    key = folder / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    site = folder / f"{NAME}.yml"
    document = {
        "region": REGION,
        "instance_type": "t3.large",
        "image": {"owner": "099720109477", "name": "ubuntu/images/hvm-ssd/ubuntu-xenial-*"},
        "user": ADMIN,
        "hours": 1,
        "price_per_hour": 0.1,
        "ssh_key": str(key),
        "allowed_sources": ["192.0.2.0/24"],
        "placement_group": False,
    }
    site.write_text(yaml.safe_dump(document))
    inventory = CHECKOUT / "inventory" / NAME
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in machines.ec2.environment().items():
            patch.setenv(name, value)
        stack.callback(remove, inventory)
        before = set(RUNS.glob("*/"))
        outcomes = {
            "provision": make("provision", SITE=site, COUNT=2, YES=1),
            "setup": make("setup", INVENTORY=inventory),
            "data": make("data", INVENTORY=inventory, DATASET="cifar10"),
            "train": make("train", INVENTORY=inventory, **SHORTEST),
        }
        run = next(iter(set(RUNS.glob("*/")) - before), Path())
        outcomes["destroy"] = make("destroy", SITE=site, YES=1)
        containers = machines.behind.values()
        state = {name: docker("inspect", "-f", "{{.State.Running}}", name) for name in containers}
        yield Story(outcomes, run, machines.behind, state, machines.ec2.instances())


@pytest.mark.parametrize("target", ["provision", "setup", "data", "train", "destroy"])
def test_each_command_ends_well(story: Story, target: str) -> None:
    assert story.outcomes[target].status == 0, story.outcomes[target].output


def test_two_machines_trained_on_the_addresses_that_ec2_gave_them(story: Story) -> None:
    assert len(story.behind) == 2
    facts = {
        path.parent.name: json.loads(path.read_text())
        for path in (story.run / "nodes").glob("*/facts.json")
    }
    assert sorted(facts) == [f"{NAME}-1", f"{NAME}-2"]
    assert all(of["address"].startswith("172.31.") for of in facts.values())


def test_nothing_is_left(story: Story) -> None:
    assert story.left == []
    assert set(story.running.values()) == {"false"}
