"""What a program prints, as a terminal would show it: control characters do nothing here."""

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from yard.core.files import read_end

# More of a line is left out.
LINE_CHARACTERS = 2000
# The newest lines, which are kept.
MOST_LINES = 200
# So many lines above the last one a program can draw again.
MOST_REACHED = 16
# Of one piece, whatever a node sends.
PIECE_CHARACTERS = 1 << 20
# What moves a terminal's cursor in the way of progress bars: the end of a line, its beginning, a
# line up, and the line made empty.
_MOVES = re.compile(r"(\n|\r|\x1b\[\d{0,3}A|\x1b\[[012]?K)")
# Any other sequence, see ECMA-48: colours, titles of windows. None of them is let through.
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)?|[ -/]{0,8}[0-~])"
)
# The beginning of one that has not come whole.
_CUT_OFF = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}|\][^\x07\x1b]{0,4096}\x1b?|[ -/]{1,8})?\Z")


def without_sequences(text: str) -> str:
    """A text without the escape sequences of terminals: colours, say."""
    return _ESCAPES.sub("", text)


def harmless(text: str) -> str:
    """A part of a line without escape sequences and what else cannot be printed."""
    if text.isprintable():
        return text
    text = without_sequences(text).expandtabs()
    return "".join(character for character in text if character.isprintable())


@dataclass
class Output:
    """Takes in a log piece by piece.

    Attributes:
        rows: the last lines, which may still be drawn again: mostly one.
        tail: the newest lines in front of them.
        end: of the last piece, in bytes.
    """

    rows: list[str] = field(default_factory=lambda: [""])
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_LINES))
    end: int = 0
    _row: int = 0
    # So many lines up the cursor has gone: bars below each other are drawn again together.
    _reach: int = 0
    _begins_anew: bool = False
    _cut_off: str = ""

    def take(self, offset: int, text: str) -> tuple[list[str], list[str]]:
        """Take in the next piece.

        Args:
            offset: where it begins in the log, in bytes; what lies between was not brought.

        Returns:
            The lines that are done, and all that lines said before they were drawn again, in order.
        """
        missing = offset - self.end
        text = self._cut_off + text[-PIECE_CHARACTERS:]
        cut_off = _CUT_OFF.search(text)
        self._cut_off = cut_off[0] if cut_off else ""
        states: list[str] = []
        for part in _MOVES.split(text[: len(text) - len(self._cut_off)]):
            self._take_part(part, states)
        above = max(0, self._row - self._reach)
        done, self.rows = self.rows[:above], self.rows[above:]
        self._row -= above
        done = [line.rstrip() for line in done]
        if missing > 0:
            done.insert(0, f"({missing:,} bytes of this log are not shown)")
        self.tail.extend(done)
        return done, states

    def finish(self) -> list[str]:
        """What of the last lines is left when no more comes."""
        rest = [row.rstrip() for row in self.rows if row.strip()]
        self.tail.extend(rest)
        self.rows, self._row = [""], 0
        return rest

    def _take_part(self, part: str, states: list[str]) -> None:
        row = self.rows[self._row]
        if part in ("\n", "\r") and row.strip():
            states.append(row.rstrip())
        if part == "\n":
            self._row += 1
            self._begins_anew = self._row < len(self.rows)
            if not self._begins_anew:
                self.rows.append("")
        elif part == "\r":
            self._begins_anew = True
        elif _MOVES.fullmatch(part) and part.endswith("A"):
            up = int(part[2:-1] or 1)
            self._reach = min(max(self._reach, up), MOST_REACHED)
            self._row = max(0, self._row - up)
        elif _MOVES.fullmatch(part):
            if self._begins_anew or "2" in part:
                self.rows[self._row] = ""
        elif shown := harmless(part):
            row = "" if self._begins_anew else row
            self._begins_anew = False
            room = LINE_CHARACTERS - len(row)
            self.rows[self._row] = row + shown[:room]


def take_log(path: Path, size: int) -> tuple[Output, list[str]]:
    """Take in the end of a log, of at most `size` bytes; returns what its lines said in order too.

    A missing file is empty.
    """
    output, states = Output(), []
    for piece in pieces_of(read_end(path, size)):
        states += output.take(output.end, piece)[1]
    return output, states + output.finish()


def drawn(text: str) -> str:
    """What a terminal shows of a text in the end: of a bar that was drawn again its last state."""
    output, lines = Output(), []
    for piece in pieces_of(text):
        lines += output.take(output.end, piece)[0]
    return "\n".join([*lines, *output.finish()])


def pieces_of(text: str) -> Iterable[str]:
    """A text in pieces that are taken whole."""
    for begin in range(0, len(text), PIECE_CHARACTERS):
        yield text[begin : begin + PIECE_CHARACTERS]
