"""playbooks/train.yml without yard: a run of its own each time, known to every command."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_schemas import errors
from yard_command import REPOSITORY, Yard, interrupt, wait_for

from yard.commands.rerun import request_of
from yard.core.errors import RequestError
from yard.operations.alone import begin
from yard.runs.folder import find_run, list_runs
from yard.runs.manifest import read_manifest

pytestmark = pytest.mark.process

ASKED = ("training_run_model=cnn_a", "training_run_node_count=2", "training_run_train_images=640")
RUN = re.compile(r"\d{8}T\d{6}Z_cnn_a_cifar10_b128_e1_n2_p1")


class Alone:
    """Starts playbooks/train.yml, the repository's own, in a checkout whose nodes are folders."""

    def __init__(self, yard: Yard) -> None:
        self.yard, self.root = yard, yard.root
        playbooks = REPOSITORY / "playbooks"
        shutil.copy(playbooks / "train.yml", self.root / "playbooks")
        for folder in ("action_plugins", "callback_plugins"):
            shutil.copytree(playbooks / folder, self.root / "playbooks" / folder)

    def command(self, *variables: str, options: tuple[str, ...] = ()) -> list[str]:
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        # The folders are this user's.
        said = [word for each in (*variables, "trainyard_become=false") for word in ("-e", each)]
        return [program, "-i", "inventory/local", "playbooks/train.yml", *said, *options]

    def start(self, *variables: str, options: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.command(*variables, options=options),
            cwd=self.root,
            env=self.yard.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def __call__(self, *variables: str, options: tuple[str, ...] = ()) -> tuple[int, str]:
        process = self.start(*variables, options=options)
        output, _ = process.communicate(timeout=120)
        return process.returncode, output

    @property
    def runs(self) -> list[Path]:
        return list_runs(self.root / "runs")


@pytest.fixture
def alone(ready: Yard) -> Alone:
    return Alone(ready)


def document(run: Path, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / f"{name}.json").read_text())
    assert errors(name, content) == []
    return content


def test_twice_in_a_row_are_two_runs(alone: Alone) -> None:
    for _ in range(2):
        status, output = alone(*ASKED)
        assert status == 0, output
    assert f"Run {alone.runs[-1].name}" in output
    assert "Succeeded after" in output
    first, second = alone.runs
    for run in (first, second):
        assert RUN.fullmatch(run.name)
        manifest, summary = document(run, "manifest"), document(run, "summary")
        assert manifest["request"] == {"model": "cnn_a", "nodes": 2, "train_images": 640}
        assert manifest["hosts"] == ["node1", "node2"]
        assert manifest["launch"]["playbook"] == "successful"
        assert summary["status"] == "succeeded"
        assert 0 < summary["seconds_to_first_step"] < summary["seconds_total"]
        assert (run / "logs/rank-1.log").exists()
        assert (run / "report.html").exists()
    # And nothing beside them.
    assert {path.name for path in (alone.root / "runs").iterdir()} == {
        *(first.name, second.name),
        *("latest", "index.html"),
    }
    assert (alone.root / "runs/latest").resolve() == second
    listed = alone.yard("runs").stdout
    assert first.name in listed
    assert second.name in listed
    assert alone.yard("report", f"{first.name},{second.name}").returncode == 0
    assert alone.yard("logs", "latest", "--rank", "1").stdout.startswith("[1 node2] ")


def test_a_run_that_fails_is_summed_up(alone: Alone) -> None:
    fate = '{"training_run_options": {"fate": "killed"}}'
    status, output = alone(*ASKED, fate)
    assert status != 0
    (run,) = alone.runs
    summary = document(run, "summary")
    assert (summary["status"], summary["exit_status"]) == ("failed", 1)
    assert "was killed with signal 9" in summary["diagnosis"]["cause"]
    assert "was killed with signal 9" in output


def test_nodes_that_are_not_fit_are_in_the_summary(alone: Alone) -> None:
    shutil.rmtree(alone.root / "nodes/node2")
    status, output = alone(*ASKED)
    assert status != 0
    (run,) = alone.runs
    summary = document(run, "summary")
    assert (summary["status"], summary["exit_status"]) == ("failed", 3)
    assert summary["diagnosis"]["host"] == "node2", output


def test_ctrl_c_leaves_a_run_that_attach_ends(alone: Alone) -> None:
    process = alone.start(*ASKED, '{"training_run_options": {"steps": 60}}')
    metrics = alone.root / "runs/latest/metrics.jsonl"
    wait_for(lambda: metrics.exists() and '"step", ' in metrics.read_text(), "the first step")
    followed = alone.yard("attach", "latest")
    assert "is being followed by another yard" in followed.stderr
    interrupt(process)
    output, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    (run,) = alone.runs
    assert f"make attach RUN={run.name}" in output
    assert not (run / "summary.json").exists()
    attached = alone.yard("attach", "latest")
    assert attached.returncode == 0, attached.stdout + attached.stderr
    assert document(run, "summary")["steps"] == 60


def test_stop_from_another_terminal(alone: Alone) -> None:
    process = alone.start(*ASKED, '{"training_run_options": {"steps": 600}}')
    metrics = alone.root / "runs/latest/metrics.jsonl"
    wait_for(lambda: metrics.exists() and '"step", ' in metrics.read_text(), "the first step")
    assert alone.yard("stop", "latest").returncode == 0
    process.communicate(timeout=60)
    assert document(alone.runs[0], "summary")["status"] == "stopped"


def test_make_train_begins_no_second_run(alone: Alone) -> None:
    done = alone.yard("train", "--model", "vit", "--nodes", "2", "--set", "steps=4")
    # The nodes are folders of this user, whom the playbook has become root on them.
    assert len(alone.runs) == 1, done.stdout + done.stderr
    log = (alone.runs[0] / "ansible.log").read_text()
    assert "TASK [Make its folder and its record]" not in log


@pytest.mark.parametrize(
    ("variables", "options", "reason"),
    [
        (("training_run_model=nonsense",), (), "model 'nonsense'"),
        (("training_run_id=mine",), (), "training_run_id: a run that is recorded gets an id"),
        ((), ("-i", "inventory/lab"), "2 inventories: a run's record names one"),
        ((), ("--check",), "a launch has no dry run"),
    ],
    ids=["model", "id", "inventories", "check"],
)
def test_what_is_refused_leaves_nothing(
    variables: tuple[str, ...], options: tuple[str, ...], reason: str, alone: Alone
) -> None:
    status, output = alone(*ASKED, *variables, options=options)
    assert status != 0
    assert reason in output
    assert not (alone.root / "runs").exists()


def typed(**variables: object) -> dict[str, object]:
    """What Ansible makes of `-e`."""
    return {f"training_run_{name}": value for name, value in variables.items()}


def test_what_is_typed_is_a_request(ready: Yard) -> None:
    inventory = str(ready.root / "inventory/local")
    variables = begin(
        ready.root,
        [inventory],
        typed(model="vit", node_count="2", learning_rate="1e-3", train_images=None, mca={}),
    )
    run = find_run(ready.root / "runs", "latest")
    assert re.fullmatch(r"\d{8}T\d{6}Z_vit_cifar10_b64_e2_n2_p1", run.name)
    assert variables["training_run_id"] == run.name
    assert variables["training_run_collect_dir"] == str(run)
    assert (variables["training_run_epochs"], variables["training_run_learning_rate"]) == (2, 0.001)
    assert variables["training_run_train_images"] is None
    manifest = read_manifest(run)
    assert manifest is not None
    assert variables["training_run_manifest"] == manifest.to_json()
    assert request_of(run, manifest).nodes == 2


def test_a_project_runs_from_its_copy(ready: Yard, tmp_path: Path) -> None:
    project = tmp_path / "Mine"
    project.mkdir()
    (project / "fit.py").write_text("print('fit')\n")
    inventory = str(ready.root / "inventory/local")
    program = ["python3", "fit.py", "--lr", "0 1"]
    variables = begin(
        ready.root, [inventory], typed(code=str(project), program=program, node_count="2")
    )
    run = find_run(ready.root / "runs", "latest")
    assert re.fullmatch(r"\d{8}T\d{6}Z_mine_n2_p1", run.name)
    assert variables["training_run_snapshot"] == str(run / "code")
    assert (run / "code/fit.py").read_text() == "print('fit')\n"
    assert variables["training_run_program"] == program
    assert variables["training_run_dataset"] == ""
    manifest = read_manifest(run)
    assert manifest is not None
    assert manifest.project is not None
    assert manifest.project["program"] == program


def test_a_program_is_a_list(ready: Yard) -> None:
    asked = typed(code=str(ready.root / "roles"), program="python3 train.py")
    with pytest.raises(RequestError, match="must be a list"):
        begin(ready.root, [str(ready.root / "inventory/local")], asked)


def test_no_run_lies_among_the_others() -> None:
    """Whoever calls the role in this checkout and gives the run no id is told so."""
    command = [str(Path(sys.executable).with_name("ansible")), "localhost", "-i", "localhost,"]
    command += ["-m", "ansible.builtin.debug", "-a", "msg={{ training_run_collect_dir }}"]
    outputs = []
    for run_id in ("", "one"):
        done = subprocess.run(
            [*command, "--playbook-dir", ".", "-e", f"training_run_id={run_id}"],
            cwd=REPOSITORY,
            env={**os.environ},
            capture_output=True,
            text=True,
            check=False,
        )
        outputs.append(done.stdout + done.stderr)
    assert "training_run_id is empty: make train" in outputs[0]
    assert f"{REPOSITORY}/runs/one" in outputs[1]
