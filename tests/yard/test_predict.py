"""`make evaluate` and `make predict`: what they refuse, and the page."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from yard_command import DATA, RUN_ID, made

from yard.commands import predict as command
from yard.core.context import Context
from yard.core.errors import ClusterError, Exit, RequestError
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.operations.weights import find_weights
from yard.plays.inventory import Inventory
from yard.request.own_data import OwnData, note_own_data
from yard.request.training import TrainRequest

RESULT = {
    **{"model": "vit", "epoch": 5, "images": 3, "labelled": 3},
    **{"loss": 1.5, "accuracy": 0.6667, "top5": None, "classes": ["cat", "<dog>"]},
    "confusion": [[1, 1], [0, 1]],
    "worst": [
        {"image": "7", "truth": "cat", "answers": [["<dog>", 0.9], ["cat", 0.1]], "png": "iVBO"}
    ],
}

Look = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run = tmp_path / "runs" / RUN_ID
    (run / "checkpoints").mkdir(parents=True)
    (run / "manifest.json").write_text((DATA / "runs/succeeded/manifest.json").read_text())
    (run / "checkpoints/epoch-5.pt").touch()
    (run / "checkpoints/best.pt").symlink_to("epoch-5.pt")
    return run


@pytest.fixture
def look(run: Path, lab: Inventory, monkeypatch: pytest.MonkeyPatch) -> Look:
    """Stands in for the playbook, and returns what it was told and what the user sees."""

    def here(*given: Any, to: Path, **named: Any) -> None:
        (to / "evaluation.json").write_text(json.dumps(RESULT))
        told.append([*given[2:], named])

    told: list[Any] = []
    monkeypatch.setattr(command, "run_trainer_here", here)
    monkeypatch.setattr(command, "read_inventory", lambda *given: lab)

    def go(verb: Callable[..., Any], *given: Any) -> str:
        text = io.StringIO()
        console = Console(file=text, width=200)
        context = Context(Project(run.parents[1]), run, console, Interrupts())
        verb(context, *given)
        return f"{told} {text.getvalue()}"

    return go


@pytest.mark.process
@pytest.mark.promise("make evaluate")
def test_the_test_set_of_a_run(look: Look, run: Path) -> None:
    told = look(command.evaluate, "latest", None, "best")
    assert "'predict'" in told
    assert "'datasets': ['cifar10']" in told
    assert f"epoch-5.pt of {RUN_ID} on cifar10: 3 images, accuracy 66.7 % of 3" in told
    page = (run / "evaluations/cifar10_epoch-5/evaluation.html").read_text()
    assert "Worst mistakes" in page
    # The worst class first, and names are no markup.
    assert page.index("50.0 %, taken for &lt;dog&gt; 50.0 %") < page.index("100.0 %")
    assert made("evaluate", "DATASET=cifar100", "RUN=a").endswith(
        "evaluate 'a' --dataset='cifar100'"
    )


@pytest.mark.process
def test_nodes_share_a_test_set(
    look: Look, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are asked for it by a run of its own, and its results lie with the others."""
    left = tmp_path / "runs/of-the-nodes/outputs"
    asked: list[Any] = []
    left_by_ranks = SimpleNamespace(text=json.dumps(RESULT))

    def train(context: Context, request: TrainRequest, started_at: float) -> Exit:
        asked.append(request)
        left.mkdir(parents=True, exist_ok=True)
        (left / "evaluation.json").write_text(left_by_ranks.text)
        (left / "predictions.csv").write_text("image\n")
        return Exit.DONE if request.nodes == 2 else Exit.UNFIT

    monkeypatch.setattr(command, "train", train)
    monkeypatch.setattr(command, "succeeded", lambda runs: {asked[-1].name: left.parent})
    told = look(command.evaluate, "latest", None, "best", 2)
    assert told.startswith("[] ")
    assert f"epoch-5.pt of {RUN_ID} on cifar10: 3 images, accuracy 66.7 % of 3" in told
    assert asked[0].test_only
    assert asked[0].weights == str(run / "checkpoints/epoch-5.pt")
    assert (asked[0].dataset, asked[0].precision, asked[0].nodes) == ("cifar10", "fp32", 2)
    assert sorted(path.name for path in (run / "evaluations/cifar10_epoch-5").iterdir()) == [
        "evaluation.html",
        "evaluation.json",
        "predictions.csv",
    ]
    assert "accuracy" not in look(command.evaluate, "latest", "cifar10", "best", 3)
    page = (run / "evaluations/cifar10_epoch-5/evaluation.html").read_text()
    for lie in ({}, {"images": "many"}, {"confusion": [[1]]}, {"worst": [1]}, {"accuracy": None}):
        written = json.dumps({**RESULT, **lie} if lie else [])
        monkeypatch.setattr(left_by_ranks, "text", written)
        with pytest.raises(ClusterError, match="no results that can be read"):
            look(command.evaluate, "latest", None, "best", 2)
    assert (run / "evaluations/cifar10_epoch-5/evaluation.html").read_text() == page
    assert made("evaluate", "NODES=2").split()[-3:] == ["evaluate", "latest", "--nodes='2'"]


def test_after_a_test_by_nodes_the_latest_is_still_the_model(
    look: Look, run: Path, tmp_path: Path
) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    # The checkout has been moved since.
    weights = f"/elsewhere/runs/{RUN_ID}/checkpoints/epoch-5.pt"
    manifest["configuration"] |= {"test_only": True, "weights": weights}
    tested = tmp_path / "runs/20991231T000000Z_vit_cifar10_test_n2_p1"
    tested.mkdir()
    (tested / "manifest.json").write_text(json.dumps(manifest))
    assert f"epoch-5.pt of {RUN_ID} on cifar10" in look(command.evaluate, "latest", None, "best")
    assert (run / "evaluations/cifar10_epoch-5/evaluation.html").is_file()
    request = TrainRequest("vit", weights="latest")
    found = find_weights(Project(tmp_path), request)
    assert found["weights"] == str(run / "checkpoints/epoch-5.pt")
    run.rename(tmp_path / "away")
    with pytest.raises(RequestError, match=f"tested {RUN_ID}, which has been deleted"):
        look(command.evaluate, "latest", None, "best")


@pytest.mark.process
def test_files_of_a_folder(look: Look, run: Path, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    told = look(command.predict, "latest", tmp_path / "photos", "best")
    assert f"'source': PosixPath('{tmp_path}/photos')" in told
    assert (run / "predictions/photos_epoch-5/evaluation.html").is_file()
    assert made("predict", "SOURCE=photos").endswith("predict latest --source='photos'")


@pytest.mark.process
def test_what_is_not_there_is_said(look: Look, run: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="there is no such folder on this machine"):
        look(command.predict, "latest", tmp_path / "photos", "best")
    with pytest.raises(RequestError, match=r"last\.pt: the run left no such checkpoint"):
        look(command.evaluate, "latest", None, "last")
    with pytest.raises(RequestError, match="dataset 'cifar'"):
        look(command.evaluate, "latest", "cifar", "best")
    assert not (run / "evaluations").exists()


@pytest.mark.process
def test_the_test_set_of_data_of_ones_own(
    look: Look, run: Path, lab: Inventory, tmp_path: Path
) -> None:
    project = Project(tmp_path)
    (tmp_path / "faces").mkdir()
    note_own_data(project, lab, OwnData("faces", str(tmp_path / "faces"), None, ""))
    told = look(command.evaluate, "latest", "faces", "best")
    assert "'--data', '/own', '--dataset', 'faces'" in told
    assert f"'datasets': [], 'own': ('faces', PosixPath('{tmp_path}/faces'))" in told
    address = "https://data.example.com/faces.tar"
    note_own_data(project, lab, OwnData("faces", address, None, ""))
    with pytest.raises(RequestError, match=f"came from {address}, which is not a folder"):
        look(command.evaluate, "latest", "faces", "best")
