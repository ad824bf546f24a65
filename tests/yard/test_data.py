"""`yard data`: what is handed to the playbook, and what is refused before it runs."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from yard_command import REPOSITORY, Yard

from yard.core.context import Context
from yard.core.errors import Interrupted, RequestError
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.operations import setup
from yard.operations.setup import raise_refusal
from yard.plays.contract import DECODE_DATA, HAVE_OWN_DATA, RUN_CONTAINER
from yard.plays.events import Event, Outcome, TaskFailure
from yard.plays.inventory import VAULT, Inventory, read_inventory
from yard.request.own_code import ProjectRequest, resolve_project
from yard.request.own_data import check_own_data, note_own_data, read_own_data, with_own_data
from yard.request.resolve import resolve
from yard.request.training import TrainRequest


@pytest.mark.parametrize("source", ["not-there.tar.gz", "https://example.com/cifar10.tar.gz"])
def test_a_source_that_is_not_there_is_refused(fresh: Yard, source: str) -> None:
    done = fresh("data", "cifar10", "--source", source)
    assert done.returncode == 2
    assert source in done.stderr
    assert not (fresh.root / ".trainyard").exists()


def test_a_source_is_found_from_where_the_command_was_given(ready: Yard) -> None:
    (ready.root / "archive.tar.gz").touch()
    done = ready("data", "cifar10", "--source", "archive.tar.gz")
    assert done.returncode == 0, done.stdout + done.stderr
    written = {path.read_text() for path in ready.root.glob("**/cifar10") if path.is_file()}
    assert written == {f"from {Path(ready.root) / 'archive.tar.gz'}\n"}


@pytest.fixture
def faces(ready: Yard) -> Path:
    """Data of a user's own, in a checkout that is set up."""
    folder = ready.root / "faces"
    folder.mkdir()
    (folder / "a.bin").write_text("a")
    return folder


def on_nodes(yard: Yard, name: str) -> set[str]:
    return {path.read_text() for path in yard.root.glob(f"nodes/*/{name}")}


def own(yard: Yard) -> dict[str, Any]:
    """What is remembered of data of the users' own."""
    document: dict[str, Any] = json.loads(
        (yard.root / ".trainyard/local/data.json").read_text(encoding="utf-8")
    )
    return document


def test_data_of_ones_own_is_put_there_and_remembered(ready: Yard, faces: Path) -> None:
    done = ready("data", "--name", "faces", "--source", "faces")
    assert done.returncode == 0, done.stdout + done.stderr
    assert on_nodes(ready, "faces") == {f"from {faces}\n"}
    assert own(ready)["faces"]["source"] == str(faces)
    record = json.loads((ready.root / ".trainyard/local/setup.json").read_text(encoding="utf-8"))
    assert record["datasets"] == ["cifar10", "faces"]
    assert (ready.root / ".trainyard/local/data.json").stat().st_mode & 0o077 == 0


def test_where_a_node_does_not_get_it_those_that_have_it_are_named(ready: Yard) -> None:
    (ready.root / "nodes/node2/broken").touch()
    (ready.root / "faces").mkdir()
    (ready.root / "faces/a.bin").write_text("a")
    done = ready("data", "--name", "faces", "--source", "faces")
    assert done.returncode == 3
    assert "has it: node1\n" in done.stdout
    assert "the disk gives errors" in done.stdout
    assert not (ready.root / ".trainyard/local/data.json").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--name", "cifar10", "--source", "faces"], "choose another name"),
        (["--name", "Faces", "--source", "faces"], "NAME=Faces: must begin with"),
        (["--name", "../x", "--source", "faces"], "NAME=../x: must begin with"),
        (["--name", "x" * 41, "--source", "faces"], "no more than 40"),
        (["--name", ".x", "--source", "faces"], "NAME=.x: must begin with"),
        (["--name", "faces"], "SOURCE= is missing"),
        (["--name", "faces", "--source", "nowhere"], "SOURCE=nowhere: there is no such"),
        (["--name", "faces", "--source", "faces", "--sha256", "12"], "SHA256=12: must be 64"),
        (["cifar10", "--name", "faces", "--source", "faces"], "takes DATASET=, or SOURCE="),
        (["cifar10", "--sha256", "0" * 64], "goes with NAME="),
        ([], "takes DATASET=, or SOURCE="),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_touched(
    ready: Yard, faces: Path, arguments: list[str], said: str
) -> None:
    before = sorted(ready.root.rglob("*"))
    done = ready("data", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert sorted(ready.root.rglob("*")) == before


@pytest.fixture
def project(ready: Yard) -> Path:
    """A user's program."""
    folder = ready.root / "mine"
    folder.mkdir()
    (folder / "train.py").write_text("")
    return folder


def asked(yard: Yard, folder: Path, dataset: str | None) -> Any:
    checkout = Project(yard.root)
    inventory = read_inventory(checkout, yard.root / "inventory/local")
    return resolve_project(ProjectRequest(str(folder), dataset=dataset), inventory, checkout)


def test_a_program_can_ask_for_it_and_so_can_the_trainer(
    ready: Yard, faces: Path, project: Path
) -> None:
    with pytest.raises(RequestError, match="make data SOURCE=folder-or-URL NAME=name"):
        asked(ready, project, "faces")
    assert ready("data", "--name", "faces", "--source", "faces").returncode == 0
    job = asked(ready, project, "faces")
    assert job.extravars()["training_run_dataset"] == "faces"
    assert job.extravars()["training_run_own_data"] is True
    (project / "trainyard.yml").write_text("data: faces\n")
    assert asked(ready, project, None).dataset == "faces"
    assert "training_run_own_data" not in asked(ready, project, "cifar10").extravars()
    with pytest.raises(RequestError, match=r"faces +from .*/faces, 20"):
        asked(ready, project, "elsewhere")
    checkout = Project(ready.root)
    inventory = with_own_data(checkout, read_inventory(checkout, ready.root / "inventory/local"))
    training = resolve(TrainRequest("vit", dataset="faces", nodes=2), inventory)
    assert training.extravars()["training_run_own_data"] is True
    # Not the part of CIFAR-10 that a local cluster trains on unasked.
    assert (training.train_images, training.train_images_available) == (None, None)
    known = resolve(TrainRequest("vit", dataset="cifar10", nodes=2), inventory)
    assert "training_run_own_data" not in known.extravars()
    assert known.train_images is not None


def test_a_program_can_ask_for_a_folder_of_the_nodes(ready: Yard, project: Path) -> None:
    job = asked(ready, project, "/mnt/nas/faces/")
    assert job.dataset == "/mnt/nas/faces"
    variables = job.extravars()
    assert variables["training_run_dataset"] == "/mnt/nas/faces"
    assert variables["training_run_own_data"] is True
    # Nobody puts it there.
    done = ready("train", "--code", "mine", "--dataset", "/mnt/nas/faces", "--nodes", "2")
    assert "Putting" not in done.stdout
    assert not on_nodes(ready, "faces")


@pytest.mark.parametrize("path", ["/", "//mnt", "/mnt/../etc", "/mnt/./x", "/mnt/a\x1b"])
def test_a_folder_of_the_nodes_is_written_plainly(ready: Yard, project: Path, path: str) -> None:
    with pytest.raises(RequestError, match="DATASET="):
        asked(ready, project, path)


def test_new_nodes_of_a_local_cluster_get_it_again(ready: Yard, faces: Path) -> None:
    assert ready("data", "--name", "faces", "--source", "faces").returncode == 0
    shutil.rmtree(ready.root / "nodes")
    assert ready("setup").returncode == 0
    assert "faces" in own(ready)
    (ready.root / "mine").mkdir()
    (ready.root / "mine/train.py").write_text("")
    done = ready("train", "--code", "mine", "--dataset", "faces", "--nodes", "2")
    assert "Putting faces on the nodes, from" in done.stdout, done.stdout + done.stderr
    assert on_nodes(ready, "faces") == {f"from {faces}\n"}


def test_what_was_fetched_is_shown_without_its_key(tmp_path: Path, lab: Inventory) -> None:
    checkout = Project(tmp_path)
    data = check_own_data("faces", "https://data.example.com/faces.tar?key=secret", None, lab)
    note_own_data(checkout, lab, data)
    remembered = read_own_data(checkout, lab)
    assert remembered == {"faces": data}
    assert remembered["faces"].extravars()["dataset_source"] == data.source
    assert remembered["faces"].command == (
        "make data SOURCE=https://data.example.com/faces.tar NAME=faces"
    )
    assert "secret" not in with_own_data(checkout, lab).datasets["faces"].description


@pytest.mark.parametrize("done", [False, True])
def test_a_decoding_does_not_go_on_after_its_command(
    done: bool, lab: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = io.StringIO()
    context = Context(Project(tmp_path), lab.path, Console(file=said), Interrupts())
    played: list[str] = []

    def stopped(context: Context, playbook: str, variables: object, take: Any) -> None:
        file, action = str(Path("/roles", *DECODE_DATA)), f"community.docker.{RUN_CONTAINER}"
        for kind in ("playbook_on_task_start", "runner_on_ok")[: 1 + done]:
            take(Event(kind, 0.0, host="localhost", task_file=file, action=action))
        raise Interrupted("interrupted")

    def play(context: Context, playbook: str, *given: object, **further: object) -> Outcome:
        played.append(playbook)
        return Outcome("successful", (), {})

    monkeypatch.setattr(setup, "run_operation", stopped)
    monkeypatch.setattr(setup, "play", play)
    with pytest.raises(Interrupted):
        setup.put_dataset(context, lab, "cifar10", None)
    assert played == ([] if done else ["data_end"])
    assert ("The decoding was ended" in said.getvalue()) is not done


def test_data_that_cannot_be_had_is_a_request_that_makes_no_sense() -> None:
    task_file = "/checkout/roles/dataset/tasks/own.yml"
    failure = TaskFailure("localhost", "Have it", "dataset", task_file, "it is\nempty", False)
    with pytest.raises(RequestError) as caught:
        raise_refusal(Outcome("failed", (failure,), {}), Path("hosts.yml"))
    assert caught.value.problems == ("it is", "empty")
    assert (REPOSITORY / "roles" / Path(*HAVE_OWN_DATA)).is_file()


def test_a_password_that_is_taken_for_a_template_is_named_with_its_file(tmp_path: Path) -> None:
    words = "Error processing keyword 'become_pass': Syntax error in template: unexpected end"
    failure = TaskFailure("localhost", "Look", "inventory_check", "", words, unreachable=False)
    (tmp_path / "hosts.yml").write_text("trainers: {}\n")
    vault = tmp_path / "vault.yml"
    vault.write_bytes(VAULT + b";1.1;AES256\n00\n")
    with pytest.raises(RequestError) as refused:
        raise_refusal(Outcome("failed", (failure,), {}), tmp_path)
    assert refused.value.problems[-1].endswith(f'!unsafe "the password", where it stands: {vault}')
