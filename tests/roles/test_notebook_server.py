"""The server of a notebook as root finds it on a node: cells can write anything there."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from node.runs.directory import RunDirectory
from node.verbs import notebook

TOKEN = "0a" * 24
RUN = {"run": "r", "home": "/home/ada/runs/r"}


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    """The directory of a run, with the server's private folder."""
    (tmp_path / "r/work/.notebook").mkdir(parents=True)
    return RunDirectory(str(tmp_path), "r")


def note(directory: RunDirectory, content: Any, name: str = "jpserver-17.json") -> Path:
    path = Path(directory.work, ".notebook", name)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_port_and_token_as_jupyter_notes_them(directory: RunDirectory) -> None:
    assert notebook.read_server(directory.path) is None
    note(directory, '{"port": 41000, "tok')
    assert notebook.read_server(directory.path) is None
    note(directory, {"port": 41000, "token": TOKEN, "pid": 17, "url": "http://127.0.0.1:41000/"})
    assert notebook.read_server(directory.path) == {"port": 41000, "token": TOKEN}


@pytest.mark.parametrize(
    "content",
    [
        [],
        "7",
        {"port": 41000},
        {"port": 22, "token": TOKEN},
        {"port": True, "token": TOKEN},
        {"port": "41000", "token": TOKEN},
        {"port": 41000, "token": "a b"},
        {"port": 41000, "token": ""},
        {"port": 41000, "token": TOKEN + "\n"},
    ],
)
def test_other_notes_are_none(directory: RunDirectory, content: Any) -> None:
    note(directory, content)
    assert notebook.read_server(directory.path) is None


def test_links_of_a_cell_are_not_followed(directory: RunDirectory, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(json.dumps({"port": 41000, "token": TOKEN}))
    Path(directory.work, ".notebook/jpserver-1.json").symlink_to(secret)
    assert notebook.read_server(directory.path) is None
    folder = Path(directory.work, ".notebook")
    folder.rename(tmp_path / "moved")
    note_of_moved = tmp_path / "moved/jpserver-2.json"
    note_of_moved.write_text(secret.read_text())
    folder.symlink_to(tmp_path / "moved")
    assert notebook.read_server(directory.path) is None


def test_what_root_writes_is_for_root_alone(tmp_path: Path) -> None:
    path = tmp_path / "notebook.json"
    notebook.write_server(str(path), {"port": 41000, "token": TOKEN})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["notebook.json"]


def waits(monkeypatch: pytest.MonkeyPatch, directory: RunDirectory, held: bool, runs: bool) -> Any:
    monkeypatch.setattr(notebook, "own", lambda root, run: dict(run) if held else None)
    monkeypatch.setattr(notebook, "is_running", lambda container: runs)
    return notebook.wait_for_server(str(Path(directory.path).parent), RUN, directory, 0.3)


def test_a_run_that_has_ended_has_no_server(
    monkeypatch: pytest.MonkeyPatch, directory: RunDirectory
) -> None:
    note(directory, {"port": 41000, "token": TOKEN})
    assert waits(monkeypatch, directory, held=True, runs=True) == {"port": 41000, "token": TOKEN}
    # Its note outlives it; and a run of another checkout may have the same id.
    assert waits(monkeypatch, directory, held=True, runs=False) is None
    assert waits(monkeypatch, directory, held=False, runs=True) is None


def test_a_server_that_never_listens_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch, directory: RunDirectory
) -> None:
    with pytest.raises(TimeoutError):
        waits(monkeypatch, directory, held=True, runs=True)
