"""A site as people have it: ordinary accounts, passwords in Ansible Vault, other ports, own data.

The machines are those of the local cluster, in an inventory like `inventory/example`: an operator
whose sudo asks for a password, sshd of one node on another port, and a small data set of the
structure of ImageNet. All recipes train on it for some steps.
"""

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
import small_imagenet
import yaml
from cluster import Cluster
from commands import RUNS, Outcome, make
from machines import CHECKOUT, INVENTORY, NODES, in_machine

OPERATOR = "ops"
PASSWORD = 'it\'s a "passphrase" with $signs'
WANDB_KEY = "fedcba9876543210fedcba9876543210fedcba98"
# Ranks that node1 and node2 carry, where a run takes as many as each has
SLOTS = 1, 2
# node2 listens here for logins, and no longer on 22
SSHD_PORT = 2022
# Of sshd in the containers of a run
CONTAINER_PORT = 2244
DATA = "/srv/trainyard/small"
IMAGENET = "resnet50_imagenet"
OTHERS = sorted({path.stem for path in (CHECKOUT / "trainer/recipes").glob("*.yml")} - {IMAGENET})


class ProcessWatch(threading.Thread):
    """Looks for secrets in the command lines of this computer, whose processes the nodes' are too.

    Attributes:
        seen: command lines that had one.
    """

    def __init__(self, *secrets: str) -> None:
        super().__init__(daemon=True)
        self.seen: set[str] = set()
        self._secrets = secrets
        self._over = threading.Event()

    def run(self) -> None:
        """Look several times a second."""
        while not self._over.wait(0.2):
            for process in Path("/proc").glob("[0-9]*"):
                self._look(process / "cmdline")

    def _look(self, path: Path) -> None:
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return  # it ended meanwhile
        if any(secret in line for secret in self._secrets):
            self.seen.add(line)

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        self.join()


@dataclass(frozen=True)
class Site:
    """The site.

    Attributes:
        inventory: its folder.
        archives: the folder with the archives of its data set.
        processes: what watches the command lines.
    """

    inventory: Path
    archives: Path
    processes: ProcessWatch

    def make(self, target: str, **variables: object) -> Outcome:
        """Run a make target for this site."""
        return make(target, INVENTORY=self.inventory, **variables)


def write_inventory(folder: Path, home: Path) -> None:
    """Write the site's inventory, its secrets encrypted with the password in `home/password`."""
    local = yaml.safe_load((CHECKOUT / INVENTORY / "nodes.yml").read_text())["trainers"]
    known_hosts = home / "known_hosts"
    hosts = {name: local["hosts"][name] for name in NODES}
    hosts["node2"]["ansible_port"] = SSHD_PORT
    hosts["node1"]["training_node_slots"], hosts["node2"]["training_node_slots"] = SLOTS
    key = local["vars"]["ansible_ssh_private_key_file"]
    pinned = Path(key).with_name("known_hosts").read_text()
    address = hosts["node2"]["ansible_host"]
    known_hosts.write_text(pinned.replace(f"{address} ", f"[{address}]:{SSHD_PORT} "))
    variables = {
        **local["vars"],
        "ansible_user": OPERATOR,
        "ansible_become_password": "{{ vault_sudo_password }}",
        "ansible_ssh_common_args": f"-o IdentitiesOnly=yes -o UserKnownHostsFile={known_hosts}",
        "training_node_ssh_port": CONTAINER_PORT,
        "training_node_data": DATA,
        # Of the environment only what the run is watched with; the key is the site's.
        "training_run_secrets": {
            "WANDB_API_KEY": "{{ vault_wandb_key if lookup('env', 'WANDB_MODE') else '' }}",
            "WANDB_MODE": "{{ lookup('env', 'WANDB_MODE') }}",
        },
    }
    everywhere = {
        "dataset_cache": str(home / "data"),
        "dataset_directory": DATA,
        "dataset_counts": small_imagenet.COUNTS,
        "dataset_validation_classes": small_imagenet.VALIDATION_CLASSES,
    }
    secrets = {"vault_sudo_password": PASSWORD, "vault_wandb_key": WANDB_KEY}
    documents = {
        "hosts.yml": {"trainers": {"hosts": hosts, "vars": variables}, "container_hosts": None},
        "group_vars/all.yml": everywhere,
        "group_vars/trainers/vault.yml": secrets,
    }
    for name, document in documents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(yaml.safe_dump(document))
    password = home / "password"
    password.write_text("of the vault\n")
    vault = ["ansible-vault", "encrypt", "--vault-password-file", str(password)]
    subprocess.run(
        [*vault, str(folder / "group_vars/trainers/vault.yml")], check=True, cwd=CHECKOUT
    )


@contextmanager
def operators() -> Iterator[None]:
    """Nodes on which an ordinary account becomes root with its password, and no other way."""
    key = f"cp -r /root/.ssh /home/{OPERATOR} && chown -R {OPERATOR}: /home/{OPERATOR}/.ssh"
    for node in NODES:
        in_machine(node, f"useradd --create-home --shell /bin/bash {OPERATOR} && {key}")
        in_machine(node, f"echo {quote(f'{OPERATOR}:{PASSWORD}')} | chpasswd")
        in_machine(node, f"echo '{OPERATOR} ALL=(ALL:ALL) ALL' > /etc/sudoers.d/{OPERATOR}")
    try:
        yield
    finally:
        for node in NODES:
            # A login that is still on its way in, or a process that is still on its way out, makes
            # userdel refuse: kill until nothing is left of either kind of owner.
            left = f"pkill -KILL --euid {OPERATOR} || pkill -KILL --uid {OPERATOR}"
            in_machine(node, f"timeout 30 sh -c 'while {left}; do sleep 0.1; done'")
            in_machine(node, f"userdel --remove {OPERATOR}")
            in_machine(node, f"rm -rf /etc/sudoers.d/{OPERATOR} {DATA}")


@contextmanager
def other_port() -> Iterator[None]:
    """The second node's sshd on another port."""
    settings = "/etc/ssh/sshd_config.d/port.conf"
    in_machine("node2", f"echo Port {SSHD_PORT} > {settings} && systemctl restart ssh")
    try:
        yield
    finally:
        in_machine("node2", f"rm {settings} && systemctl restart ssh")
        # The nodes and this machine still call it on the other port.
        play = ["ansible-playbook", "--inventory", INVENTORY, "playbooks/nodes.yml"]
        subprocess.run([*play, "--tags", "ssh_trust"], cwd=CHECKOUT, check=True)


@contextmanager
def watched_processes() -> Iterator[ProcessWatch]:
    """A look-out for the secrets."""
    processes = ProcessWatch(PASSWORD, WANDB_KEY)
    processes.start()
    try:
        yield processes
    finally:
        processes.stop()


@pytest.fixture(scope="module")
def site(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The site, set up; afterwards the nodes are those of the local inventory again."""
    cluster.make_ready()
    home = tmp_path_factory.mktemp("site")
    inventory, archives = home / "site-of-the-tests", home / "archives"
    archives.mkdir()
    small_imagenet.write_archives(archives)
    write_inventory(inventory, home)
    with ExitStack() as stack:
        stack.enter_context(other_port())
        stack.enter_context(operators())
        processes = stack.enter_context(watched_processes())
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(home / "password"))
        site = Site(inventory, archives, processes)
        assert site.make("setup").status == 0
        yield site


@pytest.fixture(scope="module")
def data(site: Site) -> Outcome:
    """The small data set on every node."""
    return site.make("data", DATASET="imagenet", SOURCE=site.archives)


def test_a_password_from_the_vault_opens_every_node(site: Site) -> None:
    outcome = site.make("exec", CMD="id -un; sudo -n true 2>&1")
    assert outcome.output.count(f"{OPERATOR}\nsudo: a password is required") == len(NODES)


def test_without_the_password_of_the_vault_it_is_named(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANSIBLE_VAULT_PASSWORD_FILE")
    outcome = site.make("train", MODEL="cnn_a")
    assert outcome.status == 2
    assert "ANSIBLE_VAULT_PASSWORD_FILE" in outcome.output


def test_a_playbook_alone_takes_the_password_of_the_vault(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/roles.md has it: what would change of the accounts, which is nothing."""
    password = os.environ["ANSIBLE_VAULT_PASSWORD_FILE"]
    monkeypatch.delenv("ANSIBLE_VAULT_PASSWORD_FILE")
    play = ["ansible-playbook", "-i", str(site.inventory), "playbooks/nodes.yml", "--check"]
    done = subprocess.run(
        [*play, "--tags", "accounts,login_shell", "--vault-password-file", password],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("changed=0") == len(NODES) + 1


def test_nodes_log_in_on_the_port_of_each(site: Site) -> None:
    """The verification does, as the training user, from every node on every other one."""
    assert site.make("verify", CHECKS="ssh").status == 0


@pytest.mark.promise("row 17")
def test_a_small_imagenet_is_put_on_every_node(data: Outcome) -> None:
    assert data.status == 0
    for node in NODES:
        description = json.loads(in_machine(node, f"cat {DATA}/imagenet/dataset.json"))
        assert tuple(description["classes"]) == small_imagenet.CLASSES
        assert description["test_images"] == small_imagenet.VALIDATION_IMAGES


# Small images, so that few steps are enough: 16 of them are four for two ranks. None is held out.
FEW_STEPS = {
    "VALIDATION": 0,
    "NODES": 2,
    "BATCH": 2,
    "EPOCHS": 1,
    "DATASET": "imagenet",
    "ARGS": "--set image_size=32",
}


# Adds up the ranks' numbers, from 1, and says how many there are on the node.
COUNT = """
import os
import torch, torch.distributed as dist
import torch.distributed.nn.functional

dist.init_process_group("gloo")
mine = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(mine)
print(f"sum {mine.item()} of {os.environ['LOCAL_WORLD_SIZE']} here", flush=True)
dist.destroy_process_group()
"""


def newest_run() -> tuple[Path, dict[str, Any]]:
    """The newest run's directory and summary, of which all here have the same numbers."""
    run = (RUNS / "latest").resolve()
    summary: dict[str, Any] = json.loads((run / "summary.json").read_text())
    assert (summary["status"], summary["hosts"]) == ("succeeded", list(NODES))
    assert (summary["steps"], summary["test_images"]) == (4, small_imagenet.VALIDATION_IMAGES)
    return run, summary


@pytest.mark.parametrize(
    "recipe", [pytest.param(IMAGENET, marks=pytest.mark.promise("row 16")), *OTHERS]
)
def test_a_recipe_trains(recipe: str, site: Site, data: Outcome) -> None:
    assert site.make("train", RECIPE=recipe, PRECISION="bf16", **FEW_STEPS).status == 0
    run, summary = newest_run()
    asked = yaml.safe_load((CHECKOUT / f"trainer/recipes/{recipe}.yml").read_text())
    assert summary["model"] == asked["model"]
    config = json.loads((run / "config.json").read_text())
    assert {**asked["options"], "precision": "bf16"}.items() <= config.items()


@pytest.fixture(scope="module")
def watched(site: Site, data: Outcome) -> tuple[Outcome, Path]:
    """A run over UCX that W&B watches with the site's key."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "offline")
        wish = {"MODEL": "cnn_a", "TRAIN_IMAGES": "all", "TRANSPORT": "ucx"}
        outcome = site.make("train", **wish, **FEW_STEPS)
    assert outcome.status == 0
    return outcome, newest_run()[0]


@pytest.mark.promise("row 21")
def test_trains_over_ucx(watched: tuple[Outcome, Path]) -> None:
    """Open MPI ends a job where the one that is named here does not work."""
    _, run = watched
    arguments = (run / "mpirun.arguments").read_text().split()
    assert arguments[arguments.index("pml") + 1] == "ucx"


@pytest.mark.parametrize("engine", ["horovod", "ddp"])
def test_each_node_has_as_many_ranks_as_it_carries(engine: str, site: Site, data: Outcome) -> None:
    wish = {**FEW_STEPS, "MODEL": "cnn_a", "TRAIN_IMAGES": "all", "ENGINE": engine}
    outcome = site.make("train", **wish, PROCS_PER_NODE="node")
    assert outcome.status == 0
    assert "ranks as each node carries: 1 on node1, 2 on node2" in outcome.output
    run = (RUNS / "latest").resolve()
    assert run.name.endswith("_n2_pnode")
    assert placed(run) == [("node1", 0), ("node2", 0), ("node2", 1)]
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["world_size"], summary["procs_per_node"]) == (3, "node")
    # 16 images are two steps of three ranks with two each; four are left over.
    assert summary["steps"] == 2


@pytest.mark.parametrize(
    ("launch", "entry", "arguments"),
    [("rank", "main.py", ""), ("node", "-m torch.distributed.run", "main.py")],
)
def test_a_program_of_one_s_own_has_as_many_ranks_as_each_node_carries(
    launch: str, entry: str, arguments: str, site: Site, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text(COUNT)
    outcome = site.make(
        "train",
        CODE=tmp_path,
        ENTRY=entry,
        SCRIPT_ARGS=arguments,
        LAUNCH=launch,
        NODES=2,
        PROCS_PER_NODE="node",
    )
    assert outcome.status == 0
    run = (RUNS / "latest").resolve()
    assert placed(run) == [("node1", 0), ("node2", 0), ("node2", 1)]
    said = "".join(path.read_text() for path in (run / "logs").glob("rank-*.log"))
    assert re.findall(r"sum \S+", said) == ["sum 6.0"] * 3
    assert sorted(re.findall(r"of (\d) here", said)) == ["1", "2", "2"]


def test_scaling_asks_for_a_number_of_ranks(site: Site) -> None:
    refused = site.make("scaling", MODEL="cnn_a", PROCS_PER_NODE="node")
    assert refused.status == 2
    assert "scaling compares nodes with the same number of ranks" in refused.output


def placed(run: Path) -> list[tuple[str, int]]:
    """Where the ranks of a run were, by rank."""
    ranks = json.loads((run / "world.json").read_text())["ranks"]
    return [(rank["host"], rank["local_rank"]) for rank in ranks]


@pytest.mark.promise("row 13")
def test_containers_listen_on_the_port_of_the_site(watched: tuple[Outcome, Path]) -> None:
    _, run = watched
    log = (run / "nodes/node2/container.log").read_text()
    assert re.search(rf"Server listening on \S+ port {CONTAINER_PORT}\.", log)
    assert "Accepted publickey" in log


def test_secrets_of_the_vault_reach_the_ranks_and_show_nowhere(
    watched: tuple[Outcome, Path], site: Site
) -> None:
    outcome, run = watched
    assert len(list(run.glob("wandb/offline-run-*/run-*.wandb"))) == 1
    assert site.processes.seen == set()
    logs = CHECKOUT / ".trainyard" / site.inventory.name
    assert list(logs.glob("log/*.log"))
    for secret in (PASSWORD, WANDB_KEY):
        assert secret not in outcome.output
        assert [
            path
            for path in (*run.rglob("*"), *logs.rglob("*"))
            if path.is_file() and secret.encode() in path.read_bytes()
        ] == []
