"""A process that looks at this node every few seconds, for as long as somebody reads what it finds.

To start Python for each look would take a tenth of a second of a core; a look alone takes a few
milliseconds, and a shell reads the file:

    <root>/.watch/        root's alone; gone when nobody reads
        state.json        what the newest look found
        asked             touched by whoever reads
        lock              held by the process
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import time
from contextlib import suppress

from ..machine.amd import sample_amd_gpus
from ..machine.load import Gpus, ProcessorLook, load
from .listing import is_rank_log, runs_and_trouble
from .untrusted import logs_of, read_rank_file

FOLDER = ".watch"
# Without a reader for so long the process ends, in seconds.
UNREAD_SECONDS = 20.0
# Of the end of each rank's log, and of how many ranks: what fits on a screen. It is looked for in
# more, because a bar that is drawn again and again fills kilobytes with one line.
LOG_BYTES, READ_BYTES = 3000, 1 << 16
# Looked for from the beginning of a line alone: else what a rank wrote without an end of line is
# read once for each of its characters.
DRAWN_OVER = re.compile(rb"^[^\n]*\r(?=[^\n\r])", re.MULTILINE)
MOST_LOGS = 32
# It gives way to all that trains.
NICE = 10


class Monitor:
    """Looks at this node after `every` so many seconds, and keeps what it finds in a file."""

    def __init__(self, root: str, host: str, every: float) -> None:
        # The process leaves the directory in which it was begun.
        self._root = os.path.abspath(root)
        self._host = host
        self._every = every
        self._folder = os.path.join(self._root, FOLDER)
        self._gpus = Gpus()
        self._before = ProcessorLook()

    def start(self) -> bool:
        """Begin in a process of its own; return whether it had to: another one may do it already.

        When this returns there is something to be read.
        """
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        self._touch()
        lock = os.open(os.path.join(self._folder, "lock"), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        time.sleep(min(self._every, 0.25))
        self.look()
        # The driver's library works on files that the new process closes, so it opens its own.
        self._gpus.close()
        if os.fork() == 0:
            try:
                self._leave(lock)
                self._gpus = Gpus()
                self.run()
            finally:
                # Nothing of the module that began it is to be done twice.
                os._exit(0)
        os.close(lock)
        return True

    def run(self) -> None:
        """Look until nobody reads any more, then leave nothing."""
        try:
            while self._unread_seconds() < UNREAD_SECONDS:
                time.sleep(self._every)
                self.look()
        finally:
            # Nobody is left who could be told why it stays; the next one makes use of it.
            shutil.rmtree(self._folder, ignore_errors=True)

    def look(self) -> None:
        runs, trouble = runs_and_trouble(self._root, self._host)
        found = {
            "runs": runs,
            "trouble": trouble,
            "load": load(self._root, self._before, self._gpus.sample() or sample_amd_gpus()),
            "logs": {run["run"]: ends_of(os.path.join(self._root, run["run"])) for run in runs},
            "time": time.time(),
        }
        self._before = ProcessorLook()
        path = os.path.join(self._folder, "state.json")
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.replace(path + ".new", path)

    def _touch(self) -> None:
        with open(os.path.join(self._folder, "asked"), "w", encoding="ascii"):
            pass

    def _unread_seconds(self) -> float:
        asked = os.stat(os.path.join(self._folder, "asked")).st_mtime
        # A clock that was set back must not keep it alive for ever.
        return abs(time.time() - asked)

    def _leave(self, lock: int) -> None:
        """Let go of the module's session and files: whoever started it waits for these to close."""
        os.setsid()
        os.nice(NICE)
        os.chdir("/")
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(nowhere, standard)
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            if descriptor > 2 and descriptor != lock:
                with suppress(OSError):  # of the listing itself
                    os.close(descriptor)


def ends_of(run: str) -> dict[str, str]:
    """Return the last lines of each rank's log on this node, by file name."""
    ends: dict[str, str] = {}
    for name in sorted(filter(is_rank_log, logs_of(run)))[:MOST_LOGS]:
        with suppress(OSError):  # collected meanwhile
            offset, content = read_rank_file(run, "logs", name, size=READ_BYTES)
            seen: bytes = DRAWN_OVER.sub(b"", content)
            # Begin with a whole line.
            if offset or len(seen) > LOG_BYTES:
                seen = seen[-LOG_BYTES:]
                seen = seen[seen.find(b"\n") + 1 :]
            ends[name] = seen.decode(errors="replace")
    return ends
