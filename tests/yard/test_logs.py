"""Pieces of logs that overlap are printed once, tagged with rank and host."""

import io

from rich.console import Console

from yard.commands.logs import LogView

FIRST = b"rank 1 of 2 on node2 (pid 17)\n"


def shown(*pieces: tuple[int, bytes]) -> list[str]:
    console = Console(width=200, record=True, file=io.StringIO())
    view = LogView(console)
    for offset, content in pieces:
        view.show(1, offset, content)
    return console.export_text().splitlines()


def test_overlapping_pieces_are_printed_once() -> None:
    whole = FIRST + b"a\nb\nc\n"
    size = len(FIRST)
    pieces = ((0, whole[: size + 2]), (0, whole[: size + 4]), (size + 2, whole[size + 2 :]))
    assert shown(*pieces) == [
        "[1 node2] rank 1 of 2 on node2 (pid 17)",
        "[1 node2] a",
        "[1 node2] b",
        "[1 node2] c",
    ]


def test_a_piece_that_is_missing_is_said_to_be() -> None:
    lines = shown((0, FIRST), (len(FIRST) + 1000, b"z\n"))
    assert lines[1:] == ["[1 node2] (1,000 bytes of this log are not shown)", "[1 node2] z"]
