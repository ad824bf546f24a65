"""The processes of the ranks in this container, from proc(5)."""

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainer.openmpi import RANK

PROC = Path("/proc")
# The name of a rank's process; the shell around it has the same environment.
COMMAND = "python3"
# What only a project's program has in its environment.
PROGRAM = b"\0TRAINYARD_OUTPUT_DIR="
# A program chooses what it is called and what its environment holds: a number has an end here, and
# a name need not be text.
_RANK = re.compile(rb"(?:^|\0)" + RANK.encode() + rb"=(\d{1,6})(?:\0|$)")
# A process may end while it is looked at, and those of other users say nothing.
_UNREADABLE = (FileNotFoundError, ProcessLookupError, PermissionError)


@dataclass(frozen=True)
class RankProcess:
    """The process of a rank.

    Attributes:
        rank: its number in the world.
        pid: its process id in this container.
    """

    rank: int
    pid: int

    def state(self) -> str | None:
        """One letter, as proc(5) lists them: R runs, S sleeps, D in the kernel, T stopped.

        None where the process has ended.
        """
        fields = _stat(PROC / str(self.pid))
        return fields[0] if fields else None

    def began_at(self) -> float | None:
        """When it began, seconds of `trainer.heartbeat.clock`; None where it has ended.

        Field 22 of proc(5) stat, in clock ticks.
        """
        fields = _stat(PROC / str(self.pid))
        return int(fields[19]) / os.sysconf("SC_CLK_TCK") if fields else None

    def waits_in_kernel(self) -> bool:
        """Whether one of its threads is in the kernel (state D), mostly for a disk."""
        threads = (PROC / str(self.pid) / "task").glob("[0-9]*")
        return any((_stat(thread) or [""])[0] == "D" for thread in threads)

    def catches(self, number: int) -> bool:
        """Whether it has a handler for a signal; SigCgt of proc(5) status."""
        with contextlib.suppress(*_UNREADABLE):
            status = PROC / str(self.pid) / "status"
            text = status.read_text(encoding="utf-8", errors="replace")
            caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", text, re.MULTILINE)
            return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)
        return False

    def main_thread_seconds(self) -> float | None:
        """Processor time of its main thread; None where the process has ended.

        Fields 14 and 15 of proc(5) stat, in clock ticks.
        """
        fields = _stat(PROC / str(self.pid) / "task" / str(self.pid))
        if not fields:
            return None
        user, system = fields[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def rank_processes() -> Iterator[RankProcess]:
    """The processes of all ranks in this container."""
    for directory in PROC.glob("[0-9]*"):
        with contextlib.suppress(*_UNREADABLE):
            name = (directory / "comm").read_text(encoding="utf-8", errors="replace")
            if name.strip() != COMMAND:
                continue
            rank = _RANK.search((directory / "environ").read_bytes())
            if rank is not None:
                yield RankProcess(int(rank[1]), int(directory.name))


def program_processes() -> Iterator[RankProcess]:
    """The processes of a project's program in this container, whatever they are called.

    That is each rank's own and those that it has started. Not the shell around it: the program
    alone is told where its outputs go (trainer/launch/program.py).
    """
    for directory in PROC.glob("[0-9]*"):
        with contextlib.suppress(*_UNREADABLE):
            environment = (directory / "environ").read_bytes()
            rank = _RANK.search(environment)
            if rank is not None and PROGRAM in environment:
                yield RankProcess(int(rank[1]), int(directory.name))


def _stat(directory: Path) -> list[str]:
    """Fields of proc(5) stat from the third on; the name before them may hold anything.

    Empty where the process has ended.
    """
    with contextlib.suppress(*_UNREADABLE):
        text = (directory / "stat").read_text(encoding="utf-8", errors="replace")
        return text.rpartition(")")[2].split()
    return []
