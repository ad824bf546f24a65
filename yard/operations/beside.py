"""Another command of `yard`, started beside this one: it goes on when this one ends."""

import subprocess
import sys

from yard.core.context import Context
from yard.plays.play import fresh_log


def start_beside(context: Context, log: str, *words: str) -> "subprocess.Popen[bytes]":
    """Start a command that has no terminal; its log, emptied, has what it prints."""
    path = fresh_log(context, log)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "yard", "--inventory", str(context.inventory), *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
