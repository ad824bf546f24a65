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

NAME = f"gpus-{CHECKOUT_HASH[:4]}"
# 10.117.0.0/24 is the local cluster's.
NETWORK = f"10.117.{(int(CHECKOUT_HASH[:2], 16) + 7) % 254 + 1}.0/24"
GPUS = {"profile": "a100", "count": 4, "driver": "550.163.01", "toolkit": True}
STATE = "/opt/stand-in-driver/state"
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
    (folder / "group_vars").mkdir()
    # This machine, which builds the image, has to see it too.
    (folder / "group_vars/all.yml").write_text("trainer_image_target: runtime\n")
    try:
        up = make("setup", INVENTORY=folder)
        assert up.status == 0
        label_the_image()
        yield folder
    finally:
        make("local-down", INVENTORY=folder)


def on_node(command: str) -> str:
    return docker("exec", f"{NAME}-node1", "sh", "-c", command)


def label_the_image() -> None:
    """Have the trainer image say that it is one for GPUs."""
    image = on_node("docker images --format '{{.Repository}}:{{.Tag}}' trainyard/trainer")
    cuda = yaml.safe_load((CHECKOUT / "docker/trainer/cuda.yml").read_text())["cuda12"]
    labels = {
        "trainyard.cuda": cuda["cuda"],
        "trainyard.driver": cuda["driver"],
        "trainyard.capabilities": f'"{" ".join(cuda["capabilities"])}"',
    }
    changes = " ".join(f"--change 'LABEL {name}={value}'" for name, value in labels.items())
    on_node(f"c=$(docker create {image}) && docker commit {changes} $c {image} && docker rm $c")


@pytest.fixture
def healthy(inventory: Path) -> Iterator[Path]:
    """All GPUs are well, before and afterwards."""
    yield inventory
    on_node(f"rm --force {STATE}")


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


def test_two_runs_at_once_have_each_its_own_gpus(healthy: Path, tmp_path: Path) -> None:
    runs = [launched(healthy, tmp_path / f"p{gpus}", gpus, "20") for gpus in (1, 2)]
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


def test_a_gpu_that_is_lost_meanwhile_is_the_cause(healthy: Path, tmp_path: Path) -> None:
    run = launched(healthy, tmp_path / "p", 1, "10", "fail")
    run.wait_for_output("GPU 0, port")
    on_node(f"echo '0 lost' > {STATE}")
    outcome = run.finish()
    assert outcome.status == 1
    diagnosis = json.loads((folder_of(run) / "summary.json").read_text())["diagnosis"]
    assert (diagnosis["signature"], diagnosis["host"]) == ("gpu_lost", "node1")
    assert "GPU 0 (NVIDIA A100-SXM4-40GB) of node1 no longer answers" in outcome.output
    # The next one gets another GPU.
    again = launched(healthy, tmp_path / "p", 1, "0")
    assert again.finish().status == 0
    assert "node1: GPU 1" in again.output


def test_memory_errors_that_a_run_got_over_are_warned_of(healthy: Path, tmp_path: Path) -> None:
    run = launched(healthy, tmp_path / "p", 1, "10")
    run.wait_for_output("GPU 0, port")
    on_node(f"echo '0 errors' > {STATE}")
    outcome = run.finish()
    assert outcome.status == 0
    (warning,) = json.loads((folder_of(run) / "summary.json").read_text())["warnings"]
    assert warning.startswith("GPU 0 of node1 had uncorrected errors of its memory")
    assert warning.partition(":")[0] in outcome.output
