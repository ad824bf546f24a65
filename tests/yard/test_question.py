"""The question before something is changed that cannot be changed back."""

import io
import os
import pty
import signal
import termios
import tty
from pathlib import Path

import pytest
from rich.console import Console
from yard_command import REPOSITORY

from yard.core.context import Context
from yard.core.errors import Interrupted, RequestError
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.screen.keys import single_keys
from yard.screen.question import StopQuestion, confirm


@pytest.mark.parametrize(("typed", "agreed"), [("yes\n", True), ("no\n", False), ("\n", False)])
def test_a_question_is_answered_on_the_terminal(
    typed: str, agreed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    typing, terminal = pty.openpty()
    os.write(typing, typed.encode())
    console = Console(file=io.StringIO())
    context = Context(Project(REPOSITORY), Path("none"), console, Interrupts())
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        if agreed:
            confirm(context, "Rent 2 machines?", False)
        else:
            with pytest.raises(RequestError, match="nothing was changed"):
                confirm(context, "Rent 2 machines?", False)
    os.close(typing)


def test_ctrl_c_ends_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    typing, terminal = pty.openpty()
    context = Context(Project(REPOSITORY), Path("none"), Console(file=io.StringIO()), Interrupts())
    context.interrupts.request()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        with pytest.raises(Interrupted):
            confirm(context, "Rent 2 machines?", False)
    os.close(typing)


def test_a_ctrl_c_asks_once_and_a_second_one_stops() -> None:
    typing, terminal = pty.openpty()
    tty.setcbreak(terminal)
    interrupts, said = Interrupts(), list[str]()
    question = StopQuestion(terminal, said.append, interrupts.request)
    interrupts.question = question.ask

    def press(keys: bytes) -> bool:
        os.write(typing, keys)
        return question.answered()

    assert not press(b"d"), "nothing was asked"
    interrupts._received(signal.SIGINT, None)
    assert not interrupts.requested
    assert "s stops the run, d leaves it" in said[0]
    assert not press(b"x")
    assert not press(b"\r")
    assert (said[1], interrupts.requested) == ("It goes on.", False)
    interrupts._received(signal.SIGINT, None)
    interrupts._received(signal.SIGINT, None)
    assert interrupts.requested
    again = Interrupts()
    again.question = lambda: True
    again._received(signal.SIGTERM, None)
    assert again.requested, "nobody answers who sends SIGTERM"
    left = StopQuestion(terminal, said.append, interrupts.request)
    left.ask()
    os.write(typing, b"d")
    assert left.answered()
    assert left.detached
    for descriptor in (typing, terminal):
        os.close(descriptor)
    assert not StopQuestion(terminal, said.append, interrupts.request).answered(), "it is gone"


def test_the_keys_of_another_job_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    typing, terminal = pty.openpty()
    monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp() + 1)  # Ctrl-Z, bg
    question = StopQuestion(terminal, print, print)
    question.ask()
    before = termios.tcgetattr(terminal)
    with single_keys(terminal):
        os.write(typing, b"d")
        assert not question.answered()
        set_by_it = termios.tcgetattr(terminal)
    assert termios.tcgetattr(terminal) == set_by_it != before, "the shell has set its own"
    monkeypatch.undo()
    assert question.answered(), "once it is in front again"
    for descriptor in (typing, terminal):
        os.close(descriptor)
