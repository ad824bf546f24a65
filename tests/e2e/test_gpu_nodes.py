"""Runs on a node with stand-ins for GPUs, on which nothing computes.

The image has no CUDA. It gets the labels of one that has, a stand-in (docs/gpus.md): what is looked
at is what containers get of the GPUs, and what is found where one falls ill.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from commands import RUNS, BackgroundMake, make
from machines import CHECKOUT, CHECKOUT_HASH, docker, write_inventory
from ordinary_account import HOME, add_account, write_native_inventory

NAME = f"gpus-{CHECKOUT_HASH[:4]}"
# 10.117.0.0/24 is the local cluster's.
NETWORK = f"10.117.{(int(CHECKOUT_HASH[:2], 16) + 7) % 254 + 1}.0/24"
GPUS = {"profile": "a100", "count": 4, "driver": "550.163.01", "toolkit": True}
# Tells which GPUs its container has, and computes on none.
PROGRAM = """\
import subprocess, sys, time

question = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader,nounits"]
print(subprocess.run(question, capture_output=True, text=True).stdout, flush=True)
time.sleep(float(sys.argv[1]))
if sys.argv[2:] == ["fail"]:
    raise RuntimeError("CUDA error: unspecified launch failure")
"""


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster of its own, of one node with four GPUs."""
    folder = tmp_path_factory.mktemp(NAME) / "inventory"
    write_inventory(folder, NAME, NETWORK)
    document = yaml.safe_load((folder / "hosts.yml").read_text())
    machines = {"local_cluster_size": 1, "local_cluster_gpus": {"node1": GPUS}}
    document["container_hosts"]["vars"] |= machines
    (folder / "hosts.yml").write_text(yaml.safe_dump(document))
    of_processors(folder)
    try:
        up = make("setup", INVENTORY=folder)
        assert up.status == 0
        image = on_node("docker images --format '{{.Repository}}:{{.Tag}}' trainyard/trainer")
        changes = " ".join(f"--change 'LABEL {name}=\"{text}\"'" for name, text in labels().items())
        on_node(f"c=$(docker create {image}) && docker commit {changes} $c {image} && docker rm $c")
        yield folder
    finally:
        make("local-down", INVENTORY=folder)


@pytest.fixture(scope="module")
def native(inventory: Path) -> Path:
    """The same node, for an account without root and without an engine."""
    add_account(on_node)
    folder = inventory.parent / "native"
    write_native_inventory(folder, inventory / "nodes.yml", ["node1"])
    of_processors(folder)
    assert make("setup", INVENTORY=folder).status == 0
    path = on_node(f"ls {HOME}/.trainyard/node1/images/*/image.json")
    about = json.loads(on_node(f"cat {path}"))
    about["Config"]["Labels"] |= labels()
    on_node(f"cat > {path} <<'END'\n{json.dumps(about)}\nEND")
    return folder


def of_processors(inventory: Path) -> None:
    """Have an inventory take the image for processors, whatever its nodes have."""
    (inventory / "group_vars").mkdir()
    # This machine, which builds the image, has to see it too.
    (inventory / "group_vars/all.yml").write_text("trainer_image_target: runtime\n")


def on_node(command: str) -> str:
    return docker("exec", f"{NAME}-node1", "sh", "-c", command)


def labels() -> dict[str, str]:
    """What an image for GPUs says of itself."""
    cuda = yaml.safe_load((CHECKOUT / "docker/trainer/cuda.yml").read_text())["cuda12"]
    return {
        "trainyard.cuda": cuda["cuda"],
        "trainyard.driver": str(cuda["driver"]),
        "trainyard.capabilities": " ".join(cuda["capabilities"]),
    }


def launched(inventory: Path, folder: Path, gpus: int, *arguments: str) -> BackgroundMake:
    """A program on some GPUs of the node, begun."""
    folder.mkdir(exist_ok=True)
    (folder / "main.py").write_text(PROGRAM)
    return BackgroundMake(
        "train",
        INVENTORY=inventory,
        CODE=folder,
        ENTRY="main.py",
        SCRIPT_ARGS=" ".join(arguments),
        GPUS_PER_NODE=gpus,
        PROCS_PER_NODE=1,
        NODES=1,
    )


def folder_of(run: BackgroundMake) -> Path:
    """A run's directory, by what the screen says."""
    found = re.search(r"^Run (\S+)", run.output, re.MULTILINE)
    assert found, run.output
    return RUNS / found[1]


def gpus_seen(run: Path) -> list[str]:
    """UUIDs of the GPUs that nvidia-smi shows in a run's container."""
    return re.findall(r"GPU-[0-9a-f-]+", (run / "logs/rank-0.log").read_text())


@pytest.mark.parametrize("kind", ["inventory", "native"])
def test_two_runs_at_once_have_each_its_own_gpus(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    nodes = request.getfixturevalue(kind)
    runs = [launched(nodes, tmp_path / f"p{gpus}", gpus, "20") for gpus in (1, 2)]
    assert [run.finish().status for run in runs] == [0, 0]
    one, two = (folder_of(run) for run in runs)
    held = [json.loads((run / "manifest.json").read_text())["gpus"]["node1"] for run in (one, two)]
    assert [len(gpus) for gpus in held] == [1, 2]
    assert not set(held[0]) & set(held[1])
    # What the containers saw is what the screen and the manifest say.
    assert [len(gpus_seen(run)) for run in (one, two)] == [1, 2]
    assert not set(gpus_seen(one)) & set(gpus_seen(two))
    spans = [json.loads((run / "ranks/0.json").read_text()) for run in (one, two)]
    assert max(span["started_at"] for span in spans) < min(span["ended_at"] for span in spans)


def test_a_gpu_that_is_lost_meanwhile_is_the_cause(inventory: Path, tmp_path: Path) -> None:
    run = launched(inventory, tmp_path / "p", 1, "10", "fail")
    run.wait_for_output("GPU 0, port")
    on_node("echo '0 lost' > /opt/stand-in-driver/state")
    outcome = run.finish()
    assert outcome.status == 1
    diagnosis = json.loads((folder_of(run) / "summary.json").read_text())["diagnosis"]
    assert (diagnosis["signature"], diagnosis["host"]) == ("gpu_lost", "node1")
    assert "GPU 0 (NVIDIA A100-SXM4-40GB) of node1 no longer answers" in outcome.output
    # The next one gets another GPU; three are left, as many as the other tests take.
    again = launched(inventory, tmp_path / "p", 1, "0")
    assert again.finish().status == 0
    assert "node1: GPU 1" in again.output
