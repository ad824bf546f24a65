"""playbooks/train.yml without yard: a run of its own each time, known to every command."""

import json
import re
import runpy
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.plugins.loader import connection_loader
from ansible.template import Templar, trust_as_template
from stand_in_nodes import StandInNodes, YardHere
from test_schemas import errors
from yard_command import REPOSITORY, Yard, interrupt, wait_for

from yard.commands.rerun import request_of
from yard.core.errors import RequestError
from yard.core.project import Project
from yard.operations.alone import Record, begin
from yard.plays.contract import launch_variables
from yard.plays.events import Event
from yard.runs.folder import find_run, list_runs
from yard.runs.manifest import read_manifest

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

    def command(self, *variables: str) -> list[str]:
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        # The folders are this user's.
        said = [word for each in (*variables, "trainyard_become=false") for word in ("-e", each)]
        return [program, "-i", "inventory/local", "playbooks/train.yml", *said]

    def start(self, *variables: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.command(*variables),
            cwd=self.root,
            env=self.yard.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def __call__(self, *variables: str) -> tuple[int, str]:
        process = self.start(*variables)
        output, _ = process.communicate(timeout=120)
        return process.returncode, output

    @property
    def runs(self) -> list[Path]:
        return list_runs(self.root / "runs")


@pytest.fixture
def alone(ready_process: Yard) -> Alone:
    return Alone(ready_process)


def played(ready: YardHere, *during: Callable[[], object], **variables: object) -> Path:
    """Have a launch of the playbook recorded, as its plugins do; returns the run."""
    inventory = ready.root / "inventory/local"
    asked = typed(model="cnn_a", node_count=2, train_images=640, **variables)
    told = begin(ready.root, [str(inventory)], asked)
    run = Path(told["training_run_collect_dir"])
    record = Record(ready.root, run)
    nodes = StandInNodes({"Follow the run": list(during)}, take_raw=record.take)
    project = Project(ready.root)
    outcome = nodes.run_playbook(
        project, project.playbook("train"), inventory, {**told, **asked}, run / "log", ignore
    )
    stats = {host: asdict(recap) for host, recap in outcome.stats.items()}
    recap: dict[str, Any] = {"processed": dict.fromkeys(stats, 1)}
    for ours, theirs in (("ok", "ok"), ("failed", "failures"), ("unreachable", "dark")):
        recap[theirs] = {host: counts[ours] for host, counts in stats.items()}
    record.take({"event": "playbook_on_stats", "received_at": time.time(), "event_data": recap})
    record.end()
    return run


def ignore(event: Event) -> None:
    """What yard does with it is none of its matter here."""


def document(run: Path, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / f"{name}.json").read_text())
    assert errors(name, content) == []
    return content


def test_twice_in_a_row_are_two_runs(ready: YardHere) -> None:
    first, second = played(ready), played(ready)
    assert RUN.fullmatch(first.name)
    manifest, summary = document(second, "manifest"), document(second, "summary")
    assert manifest["request"] == {"model": "cnn_a", "nodes": 2, "train_images": 640}
    assert manifest["hosts"] == ["node1", "node2"]
    assert manifest["launch"]["playbook"] == "successful"
    assert summary["status"] == "succeeded"
    assert 0 < summary["seconds_to_first_step"] < summary["seconds_total"]
    assert (second / "logs/rank-1.log").exists()
    assert (second / "report.html").exists()
    # And nothing beside them.
    assert {path.name for path in (ready.root / "runs").iterdir()} == {
        *(first.name, second.name),
        *("latest", "index.html"),
    }
    assert (ready.root / "runs/latest").resolve() == second
    listed = ready("runs").stdout
    assert first.name in listed
    assert second.name in listed
    assert ready("report", f"{first.name},{second.name}").returncode == 0
    assert ready("logs", "latest", "--rank", "1").stdout.startswith("[1 node2] ")


def test_a_run_that_fails_is_summed_up(ready: YardHere, capsys: pytest.CaptureFixture[str]) -> None:
    summary = document(played(ready, options={"fate": "killed"}), "summary")
    assert (summary["status"], summary["exit_status"]) == ("failed", 1)
    assert "was killed with signal 9" in summary["diagnosis"]["cause"]
    assert "was killed with signal 9" in capsys.readouterr().out


def test_nodes_that_are_not_fit_are_in_the_summary(ready: YardHere) -> None:
    shutil.rmtree(ready.root / "nodes/node2")
    run = played(ready)
    assert document(run, "manifest")["launch"]["playbook"] == "failed"
    summary = document(run, "summary")
    assert (summary["status"], summary["exit_status"]) == ("failed", 3)
    assert summary["diagnosis"]["host"] == "node2"


@pytest.mark.process
def test_ctrl_c_leaves_a_run_that_attach_ends(alone: Alone) -> None:
    process = alone.start(*ASKED, '{"training_run_options": {"steps": 60}}')
    metrics = alone.root / "runs/latest/metrics.jsonl"
    wait_for(lambda: metrics.exists() and '"step", ' in metrics.read_text(), "the first step")
    here = YardHere(alone.root)
    followed = here("attach", "latest")
    assert "another command follows 2" in followed.stderr
    interrupt(process)
    output, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    (run,) = alone.runs
    assert f"make attach RUN={run.name}" in output
    assert not (run / "summary.json").exists()
    attached = here("attach", "latest")
    assert attached.returncode == 0, attached.stdout + attached.stderr
    assert document(run, "summary")["steps"] == 60


def test_stop_from_another_terminal(ready: YardHere) -> None:
    def stop() -> None:
        assert ready("stop", "latest").returncode == 0

    run = played(ready, stop, options={"steps": 600})
    assert document(run, "summary")["status"] == "stopped"


def test_make_train_begins_no_second_run() -> None:
    file = str(REPOSITORY / "playbooks/train.yml")
    begins, _ = DataLoader().load_from_file(file, trusted_as_template=True)
    assert "begin_run" in begins["tasks"][0]
    told = launch_variables("one", "/runs/one")
    assert Templar(DataLoader(), told).template(begins["hosts"]) == "!all"
    assert Templar(DataLoader(), {}).template(begins["hosts"]) == "trainers"


def test_a_launch_has_no_dry_run() -> None:
    plugin = runpy.run_path(str(REPOSITORY / "playbooks/action_plugins/begin_run.py"))
    task, asked, loader = Task(), PlayContext(), DataLoader()
    task.check_mode = True
    connection = connection_loader.get("local", asked)
    action = plugin["ActionModule"](task, connection, asked, loader, Templar(loader), None)
    # No run is begun, for which the inventories would be needed.
    told = action.run(task_vars={})
    assert (told["failed"], told["msg"]) == (True, "a launch has no dry run")


@pytest.mark.parametrize(
    ("variables", "more", "reason"),
    [
        ({"model": "nonsense"}, (), "model 'nonsense'"),
        ({"id": "mine"}, (), "training_run_id: a run that is recorded gets an id"),
        ({}, ("inventory/lab",), "2 inventories: a run's record names one"),
    ],
    ids=["model", "id", "inventories"],
)
def test_what_is_refused_leaves_nothing(
    variables: dict[str, object], more: tuple[str, ...], reason: str, ready: YardHere
) -> None:
    inventories = [str(ready.root / "inventory/local"), *more]
    with pytest.raises(RequestError, match=reason):
        begin(ready.root, inventories, typed(**variables))
    assert not (ready.root / "runs").exists()


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
    loader = DataLoader()
    variables = {"playbook_dir": str(REPOSITORY / "playbooks")}
    for file in sorted((REPOSITORY / "group_vars/all").glob("*.yml")):
        variables |= loader.load_from_file(str(file), trusted_as_template=True)
    place = trust_as_template("{{ training_run_collect_dir }}")
    with pytest.raises(AnsibleError, match="training_run_id is empty: make train"):
        Templar(loader, {**variables, "training_run_id": ""}).template(place)
    told = Templar(loader, {**variables, "training_run_id": "one"}).template(place)
    assert Path(told).resolve() == REPOSITORY / "runs/one"
