"""Pieces of logs are printed once, tagged with rank and host."""

import io
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from yard_command import DATA, RUN_ID

from yard.commands import logs
from yard.commands.logs import LogView, show_logs
from yard.core.context import Context
from yard.core.errors import Exit
from yard.core.interrupts import Interrupts
from yard.core.project import Project
from yard.plays.contract import READ_LOGS
from yard.plays.events import Event, Outcome, TaskFailure
from yard.runs import output

FIRST = "rank 1 of 2 on node2 (pid 17)\n"


def shown(*pieces: tuple[int, str]) -> list[str]:
    console = Console(width=200, record=True, file=io.StringIO())
    with LogView(console) as view:
        for offset, text in pieces:
            view.show(1, offset, offset + len(text.encode()), text)
    return console.export_text().splitlines()


def test_pieces_that_overlap_are_printed_once() -> None:
    whole = FIRST + "a\nb\nc\n"
    size = len(FIRST)
    assert shown((0, whole[: size + 2]), (size + 2, whole[size + 2 : -1]), (0, whole)) == [
        "[1 node2] rank 1 of 2 on node2 (pid 17)",
        "[1 node2] a",
        "[1 node2] b",
        "[1 node2] c",
    ]


def test_a_piece_that_is_missing_is_said_to_be() -> None:
    lines = shown((0, FIRST), (len(FIRST) + 1000, "z\n"))
    assert lines[1:] == ["[1 node2] (1,000 bytes of this log are not shown)", "[1 node2] z"]


def test_a_bar_is_one_line_and_what_was_not_ended_is_there() -> None:
    assert shown((0, FIRST + "\r 10%\r 20%\n\x1b[2Jlast"))[1:] == [
        "[1 node2]  20%",
        "[1 node2] last",
    ]


def test_a_long_log_is_printed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "PIECE_CHARACTERS", 1000)
    assert len(shown((0, FIRST + f"{'x' * 10}\n" * 500))) == 501


def test_a_terminal_has_a_sign_of_life_and_bars_below() -> None:
    console = Console(width=30, file=io.StringIO(), force_terminal=True, color_system=None)
    view = LogView(console)

    def below() -> str:
        with console.capture() as capture:
            console.print(view._below())
        return capture.get()

    assert "Asking the nodes ..." in below()
    view.show(1, 0, 10, f"{FIRST}\r 10%|{'x' * 80}")
    assert "[1 node2]  10%|" in below()
    assert len(below().splitlines()) == 1


def test_a_node_that_does_not_answer_is_named_and_those_outside_the_run_are_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "runs" / RUN_ID
    shutil.copytree(DATA / "runs/succeeded", run, ignore=shutil.ignore_patterns("summary.json"))
    silent = TaskFailure("node2", "Read the logs", "training_run", "logs.yml", "timed out", True)

    def play(context: Context, playbook: str, variables: Any, take: Any, **options: Any) -> Outcome:
        assert options["limit"] == ("node1", "node2")
        piece = {"offset": 0, "end": 6, "text": "hello\n"}
        read = {"logs": {"rank-0.log": piece}}
        take(Event("runner_on_ok", 0.0, "node1", action=READ_LOGS, result=read))
        return Outcome("failed", (silent,), {})

    monkeypatch.setattr(logs, "play", play)
    console = Console(width=200, record=True, file=io.StringIO())
    context = Context(Project(tmp_path), tmp_path, console, Interrupts())
    assert show_logs(context, str(run), None) == Exit.DONE
    said = console.export_text()
    assert "hello" in said
    assert "node2  training_run : Read the logs\n    timed out" in said
