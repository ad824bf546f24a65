"""Two commands of a checkout that make nodes ready at the same time."""

import io
import threading
from pathlib import Path

import pytest
from rich.console import Console

from yard.core.context import Context
from yard.core.errors import Interrupted
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.operations.turn import turn


def context_in(folder: Path, interrupts: Interrupts | None = None) -> Context:
    console = Console(file=io.StringIO())
    return Context(Project(folder), folder / "inventory", console, interrupts or Interrupts())


def test_the_second_waits_for_the_first_and_says_so(tmp_path: Path) -> None:
    second, order = context_in(tmp_path), []

    def wait() -> None:
        with turn(second) as waited:
            order.append(f"second, waited {waited}")

    thread = threading.Thread(target=wait)
    with turn(context_in(tmp_path)) as waited:
        assert not waited
        thread.start()
        thread.join(timeout=0.3)
        assert thread.is_alive()
        order.append("first")
    thread.join(timeout=10)
    assert order == ["first", "second, waited True"]
    assert isinstance(second.console.file, io.StringIO)
    assert second.console.file.getvalue().count("this one waits") == 1


def test_who_waits_can_be_stopped(tmp_path: Path) -> None:
    class Stopped(Interrupts):
        requested = True

    with (
        turn(context_in(tmp_path)),
        pytest.raises(Interrupted),
        turn(context_in(tmp_path, Stopped())),
    ):
        pass
