"""Pieces of logs are printed once, tagged with rank and host."""

import io

import pytest
from rich.console import Console

from yard.commands.logs import LogView
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
