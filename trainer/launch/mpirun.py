"""One mpirun as a process."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import BinaryIO

# What stands between the arguments of one mpirun and those of the next.
THEN = "--then"
# Seconds for each of the signals that end it.
END_PATIENCE = 5.0


class Mpirun:
    """An mpirun that runs."""

    def __init__(self, arguments: Sequence[str], log: BinaryIO) -> None:
        # A session of its own and no input: else it stops when it looks for a terminal.
        self._process = subprocess.Popen(
            ["mpirun", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait(self, seconds: float) -> int | None:
        """Return its status, the negative number of the signal that ended it; None if it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def send(self, number: int) -> None:
        """Send it a signal; nothing happens if it has ended."""
        self._process.send_signal(number)

    def end(self) -> None:
        """End it and with it the ranks: interrupt, then terminate, then kill."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)
            if self.wait(END_PATIENCE) is not None:
                return


def split_commands(arguments: Sequence[str]) -> list[list[str]]:
    """The arguments of every mpirun, from those of the command line."""
    commands: list[list[str]] = [[]]
    for argument in arguments:
        if argument == THEN:
            commands.append([])
        else:
            commands[-1].append(argument)
    return commands
