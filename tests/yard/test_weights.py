"""Which file `WEIGHTS=` names."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from yard_command import DATA, RUN_ID

from yard.core.errors import RequestError
from yard.core.project import Project
from yard.operations.weights import find_weights
from yard.plays.inventory import Inventory
from yard.request.resolve import resolve
from yard.request.training import Training, TrainRequest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with a run."""
    run = tmp_path / "runs" / RUN_ID
    (run / "checkpoints").mkdir(parents=True)
    (run / "manifest.json").write_text((DATA / "runs/succeeded/manifest.json").read_text())
    (run / "checkpoints/epoch-5.pt").write_text("parameters")
    (run / "checkpoints/best.pt").symlink_to("epoch-5.pt")
    return tmp_path


def begun(root: Path, lab: Inventory, request: TrainRequest) -> Training:
    return replace(resolve(request, lab), **find_weights(Project(root), request))


@pytest.mark.process
def test_of_a_run_they_are_the_best_and_of_a_file_its_own(root: Path, lab: Inventory) -> None:
    assert begun(root, lab, TrainRequest("vit")).weights is None
    path = root / "runs" / RUN_ID / "checkpoints/epoch-5.pt"
    for typed in ("latest", RUN_ID, str(path)):
        job = begun(root, lab, TrainRequest("vit", weights=typed))
        assert (job.weights, job.weights_sha256) == (
            str(path),
            hashlib.sha256(b"parameters").hexdigest(),
        )
        variables = job.extravars()
        assert variables["training_run_weights"] == str(path)
        assert variables["training_run_weights_sha256"] == job.weights_sha256


@pytest.mark.process
@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("none.pt", r"WEIGHTS=none\.pt: there is no such file on this machine"),
        ("model.onnx", r"model\.onnx must be a file that ends in \.pt, \.pth, \.safetensors"),
        ("20250101", "20250101"),
        ("gone.pt", r"WEIGHTS=gone\.pt: cannot be read"),
    ],
)
def test_what_cannot_serve_is_said(
    typed: str, said: str, root: Path, lab: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    (root / "model.onnx").touch()
    (root / "gone.pt").symlink_to("/proc/self/mem")
    with pytest.raises(RequestError, match=said):
        begun(root, lab, TrainRequest("vit", weights=typed))
    going_on = replace(TrainRequest("vit", weights="latest"), resume="latest")
    with pytest.raises(RequestError, match="WEIGHTS= and RESUME="):
        begun(root, lab, going_on)
    (root / "runs" / RUN_ID / "checkpoints/epoch-5.pt").unlink()
    with pytest.raises(RequestError, match=r"WEIGHTS=latest: .*: the run left no such checkpoint"):
        begun(root, lab, TrainRequest("vit", weights="latest"))


def test_a_file_is_read_once_for_all_trainings_of_a_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = TrainRequest("vit", weights=str(tmp_path / "w.pt"))
    (tmp_path / "w.pt").write_bytes(b"first")
    before = find_weights(Project(tmp_path), request)
    monkeypatch.setattr("hashlib.file_digest", None)
    assert find_weights(Project(tmp_path), request) == before
    monkeypatch.undo()
    (tmp_path / "w.pt").write_bytes(b"another")
    assert find_weights(Project(tmp_path), request) != before
