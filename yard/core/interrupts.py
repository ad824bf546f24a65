"""Ctrl-C and SIGTERM as a request to stop, not as an exception in the middle of something."""

import os
import signal
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TextIO


class Interrupts:
    """Notes SIGINT and SIGTERM while it is entered.

    The commands ask `requested` at places where they can stop cleanly, several times a second.
    There a signal is announced or asked about, and not where it came: whoever prints at that moment
    holds locks of the screen. Further signals are only announced, so that an impatient second
    Ctrl-C does not lose the logs that are being collected.

    Attributes:
        announce: called of every signal that asks to stop.
        question: called of a Ctrl-C, where there is one; if it returns true, the user is asked what
            that is to mean, and nothing is requested yet.
    """

    def __init__(self) -> None:
        self._requested = False
        self._came: list[int] = []
        self.announce: Callable[[], None] = lambda: None
        self.question: Callable[[], bool] | None = None
        self._previous: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether the user wants the end."""
        while self._came:
            number = self._came.pop(0)
            if number != signal.SIGINT or self.question is None or not self.question():
                self.request()
        return self._requested

    def request(self) -> None:
        """Ask to stop, as a signal does."""
        self._requested = True
        self.announce()

    def __enter__(self) -> "Interrupts":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._received)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _received(self, number: int, frame: FrameType | None) -> None:
        self._came.append(number)


@contextmanager
def quiet_control_keys(stream: TextIO) -> Iterator[None]:
    """Keep the terminal from printing `^C` into the live display.

    Does nothing where `stream` is no terminal, or one that another job has the use of: to change
    that one would stop this process.
    """
    if not stream.isatty() or os.tcgetpgrp(stream.fileno()) != os.getpgrp():
        yield
        return
    before = termios.tcgetattr(stream)
    without = termios.tcgetattr(stream)
    without[3] &= ~termios.ECHOCTL
    termios.tcsetattr(stream, termios.TCSADRAIN, without)
    try:
        yield
    finally:
        termios.tcsetattr(stream, termios.TCSADRAIN, before)
