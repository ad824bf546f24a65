"""Checkpoints and outputs on a share: whole, once, as the training user, and never in the way."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.runs import share as training_run_share
from node.runs.directory import RunDirectory
from node.runs.share import copy_to_share
from node.verbs.checkpoints import checkpoints

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="writes as another user, as root can"),
    pytest.mark.process,
]

ACCOUNT = 64_321


@pytest.fixture
def share() -> Iterator[Path]:
    """A folder that the training user may write in: pytest's own nobody else can reach."""
    above = Path(tempfile.mkdtemp(dir="/var/tmp"))
    above.chmod(0o755)
    (above / "weights").mkdir()
    os.chown(above / "weights", ACCOUNT, ACCOUNT)
    yield above / "weights"
    shutil.rmtree(above)


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    """A run that is over, of a node that is not the first."""
    directory = RunDirectory(str(tmp_path), "run")
    collect = Path(directory.collect)
    for name in (
        "checkpoints/epoch-1.pt",
        "outputs/a/table.csv",
        "nodes/node2/outputs/b.csv",
        "nodes/node2/facts.json",
        "logs/rank-0.log",
    ):
        (collect / name).parent.mkdir(parents=True, exist_ok=True)
        (collect / name).write_text(name)
    (collect / "checkpoints/last.pt").symlink_to("epoch-1.pt")
    collect.chmod(0o700)
    return directory


def copy(directory: RunDirectory, share: Path) -> str:
    said: str = copy_to_share(directory, directory.collect, str(share), ACCOUNT, ACCOUNT)
    return said


def on(share: Path) -> dict[str, str]:
    """Path to content of each file, of a link where it leads."""
    return {
        str(path.relative_to(share)): f"-> {path.readlink()}"
        if path.is_symlink()
        else path.read_text()
        for path in sorted(share.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.promise("row 35")
def test_checkpoints_and_outputs_are_there_and_nothing_else(
    directory: RunDirectory, share: Path
) -> None:
    assert copy(directory, share) == ""
    assert on(share) == {
        "run/checkpoints/epoch-1.pt": "checkpoints/epoch-1.pt",
        "run/checkpoints/last.pt": "-> epoch-1.pt",
        "run/nodes/node2/outputs/b.csv": "nodes/node2/outputs/b.csv",
        "run/outputs/a/table.csv": "outputs/a/table.csv",
    }
    assert {path.lstat().st_uid for path in share.rglob("*")} == {ACCOUNT}


def test_checkpoints_are_there_while_the_run_goes_on_and_go_as_it_removes_them(
    directory: RunDirectory, share: Path
) -> None:
    (share / "run/checkpoints").mkdir(parents=True)
    (share / "run/checkpoints/of-an-attempt-before.pt").write_text("")
    for path in (share / "run", share / "run/checkpoints"):
        os.chown(path, ACCOUNT, ACCOUNT)
    work = Path(directory.work, "checkpoints")
    work.mkdir(parents=True)
    for epoch in (1, 2, 3):
        (work / f"epoch-{epoch}.pt").write_text(str(epoch))
        (work / "last.pt").unlink(missing_ok=True)
        (work / "last.pt").symlink_to(f"epoch-{epoch}.pt")
        (work / f"epoch-{epoch - 2}.pt").unlink(missing_ok=True)
        told = checkpoints(directory.path, "node2", 0, share=str(share), uid=ACCOUNT, gid=ACCOUNT)
        assert told["trouble"] == ""
        assert Path(directory.live, "checkpoints/last.pt").exists()
    place = "run/checkpoints"
    assert on(share) == {
        f"{place}/epoch-2.pt": "2",
        f"{place}/epoch-3.pt": "3",
        f"{place}/last.pt": "-> epoch-3.pt",
        f"{place}/of-an-attempt-before.pt": "",
    }
    # When it is over there are what it has left, and what was there before.
    assert copy(directory, share) == ""
    assert [name for name in on(share) if "checkpoints" in name] == [
        f"{place}/epoch-1.pt",
        f"{place}/last.pt",
        f"{place}/of-an-attempt-before.pt",
    ]
    told = checkpoints(directory.path, "node2", 0, share=str(share / "no"), uid=ACCOUNT)
    assert "No such file" in told["trouble"]


def test_what_is_there_is_not_written_again(directory: RunDirectory, share: Path) -> None:
    assert copy(directory, share) == ""
    before = (share / "run/checkpoints/epoch-1.pt").stat()
    newer = Path(directory.collect, "outputs/a/table.csv")
    newer.write_text("more than it was before")
    assert copy(directory, share) == ""
    assert (share / "run/checkpoints/epoch-1.pt").stat().st_ino == before.st_ino
    assert (share / "run/outputs/a/table.csv").read_text() == "more than it was before"


def test_a_share_without_links_gets_copies(
    directory: RunDirectory, share: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: object) -> None:
        raise OSError(95, os.strerror(95))

    monkeypatch.setattr(os, "symlink", refused)
    assert copy(directory, share) == ""
    assert on(share)["run/checkpoints/last.pt"] == "checkpoints/epoch-1.pt"


def test_a_share_that_is_not_there_is_told(directory: RunDirectory, share: Path) -> None:
    assert "No such file or directory" in copy(directory, share / "none")
    assert not (share / "none").exists()
    os.chown(share, 0, 0)
    assert copy(directory, share).startswith("Permission denied: ")
    assert on(share) == {}


def test_a_full_share_keeps_no_half_of_a_file(
    directory: RunDirectory, share: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left on device" in copy(directory, share)
    assert on(share) == {}
    assert Path(directory.collect, "checkpoints/epoch-1.pt").exists()


def test_a_share_that_hangs_is_given_up(
    directory: RunDirectory, share: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_run_share, "SILENCE", 0.3)
    monkeypatch.setattr(os, "fsync", lambda descriptor: __import__("time").sleep(60))
    assert copy(directory, share) == f"{share} takes nothing for 0.3 s"


def test_a_link_on_the_share_leads_the_training_user_and_not_root(
    directory: RunDirectory, share: Path, tmp_path: Path
) -> None:
    (tmp_path / "roots").mkdir()
    (share / "run").symlink_to(tmp_path / "roots")
    assert copy(directory, share) != ""
    assert not list((tmp_path / "roots").iterdir())
