"""Two checkouts, as of two operators, set up and use the same nodes: neither puts the other out."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from cluster import Cluster
from commands import Outcome, make, make_in
from machines import CHECKOUT, INVENTORY, NODES, docker, in_machine, machine
from trainings import SHORTEST

SITE = "/var/lib/trainyard/site.json"
AUTHORIZED = "/etc/ssh/ssh_trust/authorized_keys"
OTHER_PORT = 2300


@dataclass(frozen=True)
class Second:
    """The second checkout.

    Attributes:
        checkout: its folder.
        inventory: of the same nodes, as machines that are there already.
    """

    checkout: Path
    inventory: Path

    def make(self, target: str, **variables: object) -> Outcome:
        """Run a make target there."""
        return make_in(self.checkout, target, **{"INVENTORY": self.inventory, **variables})

    def play_nothing_but_agreement(self, **variables: object) -> subprocess.CompletedProcess[str]:
        """Run playbooks/nodes.yml with a tag that no role has: what comes before the roles runs."""
        play = ["ansible-playbook", "--inventory", str(self.inventory), "playbooks/nodes.yml"]
        options = ["--tags", "none", "--extra-vars", json.dumps(variables)]
        return subprocess.run(
            [*play, *options], cwd=self.checkout, capture_output=True, text=True, check=False
        )


def copy_checkout(target: Path) -> None:
    """Copy what the checkout is made of, as it is now, with its environment as a link."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=CHECKOUT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (CHECKOUT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, target / name, follow_symlinks=False)
        elif (CHECKOUT / name).is_symlink():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).symlink_to((CHECKOUT / name).readlink())
    (target / ".venv").symlink_to(CHECKOUT / ".venv")


def logs_in(checkout: Path, host: str) -> bool:
    """Whether the key of a checkout opens the training user's account on a node."""
    inventory = Path(INVENTORY).name if checkout == CHECKOUT else "site"
    settings = str(checkout / f".trainyard/{inventory}/ssh/config")
    command = ["ssh", "-F", settings, "-o", "BatchMode=yes", host, "id", "-un"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout == "trainer\n"


@pytest.fixture(scope="module")
def second(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Second]:
    """A second checkout whose set-up has run; afterwards no node knows it."""
    cluster.make_ready()
    assert make("setup").status == 0
    checkout = tmp_path_factory.mktemp("second") / "trainyard"
    checkout.mkdir()
    copy_checkout(checkout)
    inventory = checkout / "site/hosts.yml"
    inventory.parent.mkdir()
    nodes = yaml.safe_load((CHECKOUT / INVENTORY / "nodes.yml").read_text())
    inventory.write_text(yaml.safe_dump({**nodes, "container_hosts": None}))
    second = Second(checkout, inventory.parent)
    try:
        assert second.make("setup").status == 0
        yield second
    finally:
        for node in NODES:
            in_machine(node, f"rm -f {SITE}; sed -i '/@control-node:.*/d' {AUTHORIZED}")
        assert make("setup").status == 0


def test_two_checkouts_set_up_and_train_on_the_same_nodes_in_turn(second: Second) -> None:
    # The second one's set-up, which ran last, leaves the first one able to train,
    assert make("train", **SHORTEST).status == 0
    for node in NODES:
        assert logs_in(CHECKOUT, node)
        assert logs_in(second.checkout, node)
    # and the first one's set-up leaves the second one's key, and lets it train.
    assert make("setup").status == 0
    for node in NODES:
        assert logs_in(second.checkout, node)
        agreed = json.loads(in_machine(node, f"cat {SITE}"))
        assert [entry["operator"].partition(":")[2] for entry in agreed["operators"]] == [
            str(CHECKOUT),
            str(second.checkout),
        ]
    assert second.make("train", **SHORTEST).status == 0


def test_settings_that_differ_are_refused_at_set_up_before_anything_is_changed(
    second: Second,
) -> None:
    settings = second.inventory / "group_vars/trainers.yml"
    settings.parent.mkdir()
    settings.write_text(
        f"training_node_ssh_port: {OTHER_PORT}\n"
        "package_sources_mirror: http://mirror.example.org/debian\n"
        "package_sources_http_proxy: http://ada:secret@proxy.example.org:3128\n"
    )
    before = [in_machine(node, f"cat {SITE} {AUTHORIZED}") for node in NODES]
    try:
        refused = second.make("setup")
    finally:
        settings.unlink()
    assert refused.status == 3
    words = " ".join(refused.output.split())
    assert "training_node_ssh_port is 2222, as set by " in words
    assert f"and here it is {OTHER_PORT}" in words
    assert "and here it is http://mirror.example.org/debian" in words
    assert "and here it is http://proxy.example.org:3128" in words
    assert "secret" not in words
    assert "training_node_take_over" in words
    assert [in_machine(node, f"cat {SITE} {AUTHORIZED}") for node in NODES] == before


def test_who_takes_over_has_the_others_refused_until_they_agree(second: Second) -> None:
    other = {"training_node_ssh_port": OTHER_PORT}
    assert second.play_nothing_but_agreement(**other).returncode != 0
    taken = second.play_nothing_but_agreement(**other, training_node_take_over=True)
    assert taken.returncode == 0, taken.stdout
    refused = make("train", **SHORTEST)
    assert refused.status == 3
    words = " ".join(refused.output.split())
    assert f"training_node_ssh_port is {OTHER_PORT}, as set by " in words
    assert str(second.checkout) in words
    # Alone in the record, the second may go back by itself.
    assert second.play_nothing_but_agreement().returncode == 0
    assert make("train", **SHORTEST).status == 0


def test_a_second_checkout_does_not_take_the_local_cluster(
    second: Second, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRAINYARD_LOCAL_CLUSTER_TAKE_OVER", raising=False)
    local = second.checkout / ".trainyard/inventory/local"
    local.mkdir(parents=True)
    shutil.copy(CHECKOUT / INVENTORY / "hosts.yml", local)
    before = [docker("inspect", "--format", "{{.Id}} {{.State}}", machine(node)) for node in NODES]
    for target in ("local-up", "local-down"):
        refused = second.make(target, INVENTORY=local)
        assert refused.status == 3
        assert "belong to another checkout" in " ".join(refused.output.split())
    after = [docker("inspect", "--format", "{{.Id}} {{.State}}", machine(node)) for node in NODES]
    assert after == before
    assert make("exec", CMD="true").status == 0
