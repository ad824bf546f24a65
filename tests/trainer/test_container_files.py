"""What a project wrote to places that end with the container."""

import errno
import inspect
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from trainer.launch import container_files
from trainer.launch.container_files import KEPT, Stopped, keep_container_files


def test_results_are_kept_and_passing_things_are_not(tmp_path: Path) -> None:
    run, place = tmp_path / "run", tmp_path / "tmp"
    for folder in (run / "outputs", run / "failures", place / "test-clm/a", place / ".cache"):
        folder.mkdir(parents=True)
    weights = b"w" * 5000
    (place / "test-clm/a/model.safetensors").write_bytes(weights)
    (place / "test-clm/link").symlink_to("/etc/passwd")
    os.mkfifo(place / "test-clm/pipe")
    for name in (".cache/hub", "tmpab12", "torchinductor_me", "psm_1a", "sem.mp-1", "lock"):
        (place / name).write_bytes(weights if name != "lock" else b"1")
    (place / "words").mkdir()
    # A result of a script that has its folder from mktemp.
    (place / "tmp.model").write_bytes(b"w" * (1 << 20))
    for number in range(1001):
        (place / f"words/{number}").write_bytes(b"text")
    keep_container_files(run, "node1", [str(place), str(tmp_path / "nowhere")], 0)
    noted = json.loads((run / "failures/container-node1.json").read_text())
    assert sorted(noted, key=lambda entry: str(entry["path"])) == [
        {"path": f"{place}/test-clm", "files": 1, "bytes": 5000, "kept": True},
        {"path": f"{place}/tmp.model", "files": 1, "bytes": 1 << 20, "kept": True},
        {"path": f"{place}/words", "files": 1001, "bytes": 4004, "kept": False},
    ]
    kept = Path(f"{run}/outputs/left-in-container{place}")
    assert (kept / "test-clm/a/model.safetensors").read_bytes() == weights
    assert sorted(path.name for path in kept.iterdir()) == ["test-clm", "tmp.model"]
    assert sorted(path.name for path in run.iterdir()) == ["failures", "outputs"]


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("wandb", False),  # an offline run, with WANDB_DIR=/tmp or where its folder takes nothing
        ("wandb-12-service", True),
        ("torch_model", False),
        ("torch_12_345_6", True),
        ("lung_segmentation", False),
        ("sm_segment.node1.2000.1.0", True),
    ],
)
def test_results_are_told_from_passing_things_by_their_names(
    tmp_path: Path, name: str, passes: bool
) -> None:
    run, place = tmp_path / "run", tmp_path / "tmp"
    for folder in (run / "failures", place / name):
        folder.mkdir(parents=True)
    (place / name / "run.wandb").write_bytes(b"w" * 5000)
    keep_container_files(run, "node1", [str(place)], 0)
    assert (run / KEPT / f"{place}/{name}/run.wandb".lstrip("/")).exists() != passes


def test_shared_memory_ends_with_the_container_too() -> None:
    assert container_files.container_places()[:2] == ("/tmp", "/dev/shm")


def test_what_a_program_wrote_beside_its_working_directory_is_kept(tmp_path: Path) -> None:
    """By `../results`."""
    run = tmp_path / "run"
    for folder in ("failures", "project", "results/a"):
        (run / folder).mkdir(parents=True)
    (run / "results/a/model.pt").write_bytes(b"w" * 5000)
    (run / "metrics.jsonl").write_bytes(b"1" * 5000)
    keep_container_files(run, "node1", [], 1 << 60)
    (entry,) = json.loads((run / "failures/container-node1.json").read_text())
    assert entry == {"path": f"{run}/results", "files": 1, "bytes": 5000, "kept": True}
    assert Path(f"{run}/outputs/left-in-container{run}/results/a/model.pt").is_file()
    assert sorted(each.name for each in run.iterdir()) == [
        *("failures", "metrics.jsonl", "outputs", "project")
    ]


def test_nothing_is_copied_by_half_or_onto_a_full_disk(tmp_path: Path) -> None:
    run, place = tmp_path / "runs/r", tmp_path / "home"
    for folder in (run / "failures", place):
        folder.mkdir(parents=True)
    keep_container_files(run, "node1", [str(place)], 0)
    assert not list((run / "failures").iterdir())
    (place / "model.pt").write_bytes(b"w" * 5000)
    # Not what holds the run directory itself, either.
    keep_container_files(run, "node1", [str(place), str(run.parent)], 1 << 60)
    (entry,) = json.loads((run / "failures/container-node1.json").read_text())
    assert entry["kept"] is False
    assert sorted(path.name for path in run.iterdir()) == ["failures"]


def test_what_cannot_be_copied_is_noted_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, place = tmp_path / "run", tmp_path / "tmp"
    for folder in (run / "failures", place / "deep", run / f"{KEPT}/{place}/model"):
        folder.mkdir(parents=True)
    # Deeper than functions may call each other.
    above = os.open(place / "deep", os.O_RDONLY)
    for _ in range(100):
        os.mkdir("d", dir_fd=above)
        inner = os.open("d", os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = inner
    os.close(above)
    # A folder in an attempt before.
    (place / "model").write_bytes(b"w" * 5000)
    (place / "other").write_bytes(b"w" * 6000)
    copied = shutil.copy2

    def copy(path: str, target: Path, **options: bool) -> None:
        copied(path, target, **options)
        # It may be ended meanwhile.
        noted = json.loads((run / "failures/container-node1.json").read_text())
        assert f"{place}/other" in [entry["path"] for entry in noted]
        if path.endswith("other"):
            raise OSError(errno.ENOSPC, "the disk is full")

    monkeypatch.setattr(shutil, "copy2", copy)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 80)
    try:
        keep_container_files(run, "node1", [str(place)], 0)
    finally:
        sys.setrecursionlimit(limit)
    noted = json.loads((run / "failures/container-node1.json").read_text())
    kept = {entry["path"]: entry["kept"] for entry in noted}
    kept.pop(f"{place}/deep", None)
    assert kept == {f"{place}/model": True, f"{place}/other": False}
    assert sorted(path.name for path in run.iterdir()) == ["failures", "outputs"]
    assert (run / f"{KEPT}/{place}/model").is_file()


def with_a_model(folder: Path) -> tuple[Path, Path]:
    """The directory of a run, and a place that ends with the container and holds a file."""
    run, place = folder / "run", folder / "tmp"
    for path in (run / "failures", place):
        path.mkdir(parents=True)
    (place / "model").write_bytes(b"w" * 5000)
    return run, place


def test_a_copy_that_is_stopped_leaves_nothing_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, place = with_a_model(tmp_path)

    def copy(path: str, target: Path, **options: bool) -> None:
        target.write_bytes(b"half")
        raise Stopped

    monkeypatch.setattr(shutil, "copy2", copy)
    keep_container_files(run, "node1", [str(place)], 0)
    (entry,) = json.loads((run / "failures/container-node1.json").read_text())
    assert entry["kept"] is False
    assert not [
        path for path in run.rglob("*") if path.is_file() and path.parent.name != "failures"
    ]


def test_one_is_stopped_while_it_looks_or_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, place = with_a_model(tmp_path)

    def stop(*given: object) -> None:
        raise Stopped

    for name in ("_sizes", "_note"):
        with monkeypatch.context() as patch:
            patch.setattr(container_files, name, stop)
            keep_container_files(run, "node1", [str(place)], 0)  # the run's end is still told
    assert not (run / KEPT).exists()
