"""Whether a node has the data that a run asks for: the trainer's own, or a user's."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from node.verbs import probe

pytestmark = pytest.mark.process


def problems(data: Path, own: bool, user: int = 0) -> list[dict[str, Any]]:
    """What the node says of data set `faces`."""
    needs = probe.Needs(
        image="image",
        directory=str(data),
        data=str(data),
        dataset="faces",
        own_data=own,
        address="127.0.0.1",
        port=2222,
        ports=1,
        free_gigabytes=0,
        uid=user,
        gid=user,
        memory_gigabytes=0,
        open_files=0,
        transport="",
        needs_gpu=False,
        gpus="",
        gpu_vendor="nvidia",
        gpus_wanted=0,
        site={},
        operator="",
        sys="/sys",
    )
    return [problem.asdict() for problem in probe.path_problems(needs)]


@pytest.mark.parametrize(
    ("files", "own", "code"),
    [
        ([], False, "dataset_missing"),
        ([], True, "own_data_missing"),
        (["faces/"], True, "own_data_missing"),
        (["faces/a.bin"], False, "dataset_missing"),
        (["faces/a.bin"], True, None),
        (["faces/dataset.json"], False, None),
        (["faces/train/"], False, None),
        # What is on its way does not count.
        ([".transfer/faces/files/a.bin"], True, "own_data_missing"),
    ],
)
def test_says_what_is_missing(
    files: list[str], own: bool, code: str | None, tmp_path: Path
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).mkdir() if name.endswith("/") else (tmp_path / name).touch()
    assert [entry["code"] for entry in problems(tmp_path, own)] == ([code] if code else [])


def test_says_how_the_users_data_comes_there(tmp_path: Path) -> None:
    text = problems(tmp_path, own=True)[0]["text"]
    assert "make data SOURCE=<folder, archive or URL of it> NAME=faces" in text


@pytest.mark.parametrize("own", [True, False])
def test_what_cannot_be_looked_at_is_not_taken_for_missing(own: bool, tmp_path: Path) -> None:
    (tmp_path / "faces").symlink_to("faces")
    (problem,) = problems(tmp_path, own)
    assert problem["code"] == "dataset_unreadable"
    assert "Too many levels of symbolic links" in problem["text"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("own", [True, False])
def test_it_is_looked_at_as_the_ranks_will(own: bool) -> None:
    """Root may look into everything."""
    with tempfile.TemporaryDirectory() as data:  # nobody else may enter pytest's
        os.chmod(data, 0o755)
        faces = Path(data, "faces")
        faces.mkdir(mode=0o700)
        (faces / "dataset.json").touch()
        (problem,) = problems(Path(data), own, user=65534)
        assert problem["code"] == "dataset_unreadable"
        assert "Permission denied" in problem["text"]
        faces.chmod(0o755)
        assert problems(Path(data), own, user=65534) == []
