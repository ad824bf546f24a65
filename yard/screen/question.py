"""Asks before something is changed that cannot be changed back."""

import select
import sys
from collections.abc import Callable
from dataclasses import dataclass

from yard.core.context import Context
from yard.core.errors import Interrupted, RequestError
from yard.screen.keys import is_in_front, read_key

# How often the user's wish to stop is looked at, in seconds.
TICK = 0.2


def confirm(context: Context, question: str, yes: bool) -> None:
    """Ask before anything is changed.

    Args:
        yes: it was answered on the command line.

    Raises:
        RequestError: the answer is no, or there is nobody to ask.
        Interrupted: the user stopped it.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise RequestError(
            f"{question} There is no terminal to answer on: nothing was changed. YES=1 says yes."
        )
    context.console.print(f"{question} Type yes to go on: ", end="", markup=False)
    sys.stdout.flush()
    # Not input(), which a Ctrl-C that is only noted does not end.
    while not select.select([sys.stdin], [], [], TICK)[0]:
        if context.interrupts.requested:
            context.console.print()
            raise Interrupted("interrupted; nothing was changed")
    if sys.stdin.readline().strip().lower() != "yes":
        raise RequestError("nothing was changed: the answer was not yes")


@dataclass
class StopQuestion:
    """What a Ctrl-C means while a run trains, asked beside what the screen shows.

    Attributes:
        detached: the run goes on, and another command follows it.
    """

    keys: int
    note: Callable[[str], None]
    stop: Callable[[], None]
    detached: bool = False
    _is_open: bool = False

    def ask(self) -> bool:
        """Ask, unless that was done: who presses Ctrl-C twice wants the end."""
        if self._is_open:
            return False
        self._is_open = True
        self.note(
            "Ctrl-C: s stops the run, d leaves it to go on in the background, Enter goes on here; "
            "Ctrl-C again stops it."
        )
        return True

    def answered(self) -> bool:
        """Take a key that was pressed; returns whether the run is left."""
        try:
            # In the background (Ctrl-Z, bg) another job has the keys: reading one would stop this
            # process.
            key = read_key(self.keys, 0) if is_in_front(self.keys) else None
        except (EOFError, OSError):  # the terminal is gone
            return False
        if self._is_open and key in ("s", "d", "enter", "escape"):
            self._is_open = False
            self.detached = key == "d"
            if key == "s":
                self.stop()
            elif key != "d":
                self.note("It goes on.")
        return self.detached
