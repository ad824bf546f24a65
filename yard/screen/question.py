"""Asks before something is changed that cannot be changed back."""

import select
import sys

from yard.core.context import Context
from yard.core.errors import Interrupted, RequestError

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
            [f"{question} There is no terminal to answer on: nothing was changed. YES=1 says yes."]
        )
    context.console.print(f"{question} Type yes to go on: ", end="", markup=False)
    sys.stdout.flush()
    # Not input(), which a Ctrl-C that is only noted does not end.
    while not select.select([sys.stdin], [], [], TICK)[0]:
        if context.interrupts.requested:
            context.console.print()
            raise Interrupted("interrupted; nothing was changed")
    if sys.stdin.readline().strip().lower() != "yes":
        raise RequestError(["nothing was changed: the answer was not yes"])
