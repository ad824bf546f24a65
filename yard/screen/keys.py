"""Keys from a terminal, one by one."""

import os
import select
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

# What terminals send for keys that have names here; see console_codes(4).
NAMED = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\r": "enter",
    b"\n": "enter",
    b"\x1b": "escape",
    b"\x7f": "backspace",
    b"\x08": "backspace",
}
# What follows the escape sign of a key comes at once; a person takes longer. In seconds.
SEQUENCE = 0.05


@contextmanager
def single_keys(terminal: int) -> Iterator[None]:
    """Have a terminal hand over each key at once, and not show it; Ctrl-C stays a signal."""
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield
    finally:
        # From the background it would stop this process, and the shell has set its own by then.
        if is_in_front(terminal):
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def is_in_front(terminal: int) -> bool:
    """Whether no other job has the use of a terminal."""
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:  # it knows no jobs of this session, or is gone
        return True


@contextmanager
def keys_of(stream: TextIO) -> Iterator[int | None]:
    """Single keys of a terminal by its descriptor; None where there is nobody to press one.

    A terminal that another job has the use of is left alone: to change it would stop this process.
    """
    if not stream.isatty() or not is_in_front(stream.fileno()):
        yield None
        return
    with single_keys(stream.fileno()):
        yield stream.fileno()


def read_key(terminal: int, seconds: float) -> str | None:
    """Return the next key, its name or its character; None where none comes within `seconds`.

    Raises:
        EOFError: the terminal is gone.
    """
    if not _is_ready(terminal, seconds):
        return None
    sequence = _read(terminal)
    if sequence == b"\x1b" and _is_ready(terminal, SEQUENCE):
        sequence += _read(terminal)
        while sequence[1:2] in (b"[", b"O") and (
            len(sequence) == 2 or (not sequence[-1:].isalpha() and sequence[-1:] != b"~")
        ):
            if not _is_ready(terminal, SEQUENCE):
                break
            sequence += _read(terminal)
    # The first byte of a character of UTF-8 has as many leading ones as the character has bytes.
    for leading in (0xC0, 0xE0, 0xF0):
        if sequence[0] >= leading and _is_ready(terminal, SEQUENCE):
            sequence += _read(terminal)
    named = NAMED.get(sequence)
    if named is not None:
        return named
    text = sequence.decode(errors="replace")
    return text if text.isprintable() else ""


def _is_ready(terminal: int, seconds: float) -> bool:
    return bool(select.select([terminal], [], [], seconds)[0])


def _read(terminal: int) -> bytes:
    data = os.read(terminal, 1)
    if not data:
        raise EOFError
    return data
