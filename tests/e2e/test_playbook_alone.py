"""playbooks/train.yml alone, as docs/run.md gives it: runs like those of make train."""

import json
import subprocess

import formats
from cluster import Cluster
from commands import RUNS, make
from machines import CHECKOUT, INVENTORY, NODES, containers_of_runs

ASKED = {"model": "cnn_a", "node_count": 2, "train_images": 640, "epochs": 1}


def test_twice_in_a_row_are_two_runs(ready_cluster: Cluster) -> None:
    before = set(RUNS.iterdir()) if RUNS.exists() else set()
    command = [".venv/bin/ansible-playbook", "-i", INVENTORY, "playbooks/train.yml"]
    for name, value in ASKED.items():
        command += ["-e", f"training_run_{name}={value}"]
    for _ in range(2):
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Succeeded after" in done.stdout
    first, second = sorted(set(RUNS.iterdir()) - before - {RUNS / "latest", RUNS / "index.html"})
    listed = make("runs").output
    for run in (first, second):
        assert run.name.endswith("_cnn_a_cifar10_b64_e1_n2_p1")
        assert formats.errors(run) == []
        summary = json.loads((run / "summary.json").read_text())
        assert summary["status"] == "succeeded"
        assert summary["world_size"] == 2
        assert (run / "report.html").is_file()
        assert run.name in listed
    assert (RUNS / "latest").resolve() == second
    assert [containers_of_runs(host) for host in NODES] == ["", ""]
