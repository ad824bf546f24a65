"""A command that was started beside another one."""

import errno
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from yard.core.context import Context
from yard.core.errors import Exit
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.core.room import NoRoomError
from yard.operations import beside


class Ended:
    """A process that ended at once, with some status."""

    def __init__(self, status: int) -> None:
        self.status = status

    def poll(self) -> int:
        return self.status


@pytest.mark.parametrize(
    ("status", "as_what"),
    [(0, Exit.DONE), (2, Exit.BAD_REQUEST), (130, Exit.INTERRUPTED), (-9, Exit.FAILED)],
)
def test_a_command_in_the_background_that_was_killed_has_failed(
    status: int, as_what: Exit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path)
    context = Context(project, project.own_inventory, Console(), Interrupts())

    def start(context: Context, log: str, *words: str, **variables: str) -> Ended:
        folder = project.logs(context.inventory)
        folder.mkdir(parents=True)
        (folder / f"{log}.log").touch()
        return Ended(status)

    monkeypatch.setattr(beside, "start_beside", start)
    assert beside.detach(context, "train") == as_what


def test_a_run_that_is_left_on_a_full_disk_is_not_to_be_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    project, run = Project(tmp_path), tmp_path / "runs/20261128T000000Z_vit"
    context = Context(project, project.own_inventory, Console(), Interrupts())
    run.mkdir(parents=True)
    (run / "manifest.json").touch()
    monkeypatch.setattr(beside, "start_beside", full)
    with pytest.raises(NoRoomError, match=f"make attach RUN={run.name}"):
        beside.leave(context, run)


def test_only_what_was_asked_to_be_in_the_background_is_told_that_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that another one starts in turn (NOTIFY=) would not detach itself otherwise."""
    project = Project(tmp_path)
    context = Context(project, project.own_inventory, Console(), Interrupts())
    told: list[bool] = []

    def start(command: list[str], env: dict[str, str], **_: object) -> Ended:
        told.append(beside.DETACHED in env)
        return Ended(0)

    monkeypatch.setattr(subprocess, "Popen", start)
    beside.leave(context, tmp_path / "run")
    beside.detach(context, "train")
    assert told == [False, True]
