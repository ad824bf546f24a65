"""Who installs packages on a machine: what a set-up began there goes on when it is interrupted."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

# Whoever installs packages holds it.
LOCK = "/var/lib/dpkg/lock-frontend"
LOCKS = "/proc/locks"
# In /proc/<pid>/stat behind the name of the program, which may have blanks in it (proc(5)).
START = 19


class Installer(NamedTuple):
    """The program that installs packages.

    Attributes:
        since: when it was started, Unix seconds.
    """

    command: str
    pid: int
    since: float

    def __str__(self) -> str:
        return f"{self.command} (pid {self.pid})"


def installer() -> Installer | None:
    """Return who holds the lock of apt and dpkg (proc_locks(5)); None for nobody."""
    try:
        place = os.stat(LOCK)
        with open(LOCKS, encoding="ascii") as file:
            locks = [line.split() for line in file]
        for entry in locks:
            if entry[1] != "->" and entry[5].endswith(f":{place.st_ino}"):
                return _process(int(entry[4]))
    except OSError:
        pass  # there is no apt, or it has just ended
    return None


def _process(pid: int) -> Installer:
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        about = file.read()
    name, _, rest = about.partition("(")[2].rpartition(")")
    started = int(rest.split()[START]) / os.sysconf("SC_CLK_TCK")
    return Installer(name, pid, time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + started)
