"""Copies of a run's checkpoints on another of its nodes, in case the first one dies."""

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from trainer.launch.copy_marks import FileMark, FileMarks

# Below the run directory: what is copied, and where it goes on the other node. What takes it from
# there is roles/training_run, when the first node does not answer. Of the working directory of a
# project that is what its pattern of checkpoints names.
CHECKPOINTS, COPIES = "checkpoints", "copies/checkpoints"
WORKDIR, WORKDIR_COPIES = "project", "copies/workdir"
# Seconds between two looks; a folder that takes long to look at is looked at less often.
LOOK = 2.0
SHARE_OF_LOOKS = 50
# Seconds without a byte after which a copy is given up, and until the next one is begun, which is
# twice as long after each that failed.
SILENCE = 30
PAUSE, LONGEST_PAUSE = 30.0, 600.0
# Bytes that must be free on the other node beside what is copied there.
RESERVE = 1 << 30
# On a node without that much room nothing is started, and rsync ends with an error.
ROOM = '[ "$(df --output=avail --block-size=1 {} | tail -n 1)" -gt {} ] && rsync'
# Seconds for a copy to end that is not wanted any more.
END_PATIENCE = 2.0
# Of rsync: the copy is complete; a file went away meanwhile, as old checkpoints do.
COMPLETE, VANISHED = 0, 24
# rsync counts in KiB; see --bwlimit.
MEGABYTE_IN_KIB = 1000 / 1.024


@dataclass
class CheckpointCopies:
    """Keeps a copy of the checkpoints of this node on another one, while the run goes on.

    rsync does it, in a process of its own that computing goes before. A file is copied when nobody
    has written to it for a moment, and stands on the other node complete or not at all. What is no
    longer among the checkpoints goes there too. Links are copied that stay in the folder. Where a
    node does not take them, or has no room, the next one does.

    Attributes:
        peers: the other nodes, by the names that ssh knows; without any there are no copies.
        megabytes: how much is sent in a second at the most, in 10^6 bytes; 0 sends nothing.
        log: takes what rsync says.
        say: takes a line for people.
        folder, target: what is copied and where it goes, below the run directory.
        pattern: which files of the folder are, see `FileMarks`; empty: all.
    """

    run_dir: Path
    peers: Sequence[str]
    megabytes: float
    log: BinaryIO
    say: Callable[[str], None]
    folder: str = CHECKPOINTS
    target: str = COPIES
    pattern: Sequence[str] = ()
    _marks: FileMarks = field(init=False)
    _process: "subprocess.Popen[bytes] | None" = None
    _sent: Mapping[str, FileMark] = field(default_factory=dict)
    _copied: Mapping[str, FileMark] | None = None
    _peer: int = 0
    _failures: int = 0
    _next_look: float = 0.0

    def __post_init__(self) -> None:
        self._marks = FileMarks(self.run_dir / self.folder, self.pattern)

    def look(self, now: float) -> None:
        """Begin a copy where there is something new; to be called now and then, it never waits.

        Args:
            now: monotonic seconds.
        """
        if self._process is not None and self._process.poll() is not None:
            self._ended(self._process.returncode, now)
            self._process = None
        if not self.peers or not self.megabytes or self._process is not None:
            return
        if now < self._next_look:
            return
        began = time.monotonic()
        self._marks.look(now)
        self._next_look = now + max(LOOK, SHARE_OF_LOOKS * (time.monotonic() - began))
        settled = self._marks.settled()
        if settled and settled != self._copied:
            self._sent = settled
            size = sum(mark.size for mark in settled.values())
            try:
                self._process = self._begin(self.peers[self._peer], size)
            except OSError as error:  # the ranks may have started all processes that there may be
                self._failed(str(error), now)

    def close(self) -> None:
        """End a copy that is still going on: the run is over, and the files are brought home."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(END_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _begin(self, peer: str, size: int) -> "subprocess.Popen[bytes]":
        source, target = self.run_dir / self.folder, self.run_dir / self.target
        room = ROOM.format(shlex.quote(str(self.run_dir)), size + RESERVE)
        command = ["nice", "--adjustment=15", "rsync"]
        command += ["--recursive", "--links", "--safe-links", "--times", "--perms"]
        command += ["--whole-file", "--mkpath", "--delete-after"]
        command += [f"--timeout={SILENCE}", "--rsh=ssh", f"--rsync-path={room}"]
        command += [f"--bwlimit={max(1, round(self.megabytes * MEGABYTE_IN_KIB))}"]
        command += ["--exclude=.*", "--from0", "--filter=merge -"]
        process = subprocess.Popen(
            [*command, f"{source}/", f"{peer}:{target}/"],
            stdin=subprocess.PIPE,
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
        )
        assert process.stdin is not None
        try:
            rules = [_rule("-", path) for path in self._marks.unsettled()]
            if self.pattern:
                rules += _only(self._sent)
            process.stdin.write(b"".join(rules))
            process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended, and its status tells
        return process

    def _ended(self, status: int, now: float) -> None:
        if status == COMPLETE:
            self._copied = self._sent
            self._failures = 0
        elif status != VANISHED:
            self._failed(f"it does not answer, or has no room (rsync ended with {status})", now)

    def _failed(self, reason: str, now: float) -> None:
        """Go on to the next node, after a pause."""
        peer = self.peers[self._peer]
        pause = min(PAUSE * 2**self._failures, LONGEST_PAUSE)
        self._failures = min(self._failures + 1, 16)
        self._peer = (self._peer + 1) % len(self.peers)
        self._next_look = now + pause
        self.say(
            f"the checkpoints could not be copied to {peer}: {reason}; "
            f"next attempt, to {self.peers[self._peer]}, in {pause:g} s"
        )


def _rule(kind: str, path: str) -> bytes:
    """A rule of rsync for one path, where "?" stands for any character."""
    plain = "".join("?" if character in "*?[\\" else character for character in path)
    return os.fsencode(f"{kind} /{plain}\0")


def _only(paths: Iterable[str]) -> list[bytes]:
    """The rules that send these files with the folders they lie in, and hide all others.

    What is hidden is removed on the other node, if it is there.
    """
    folders = {
        f"{above}/": None for path in paths for above in list(PurePosixPath(path).parents)[:-1]
    }
    return [*(_rule("+", path) for path in (*folders, *paths)), b"H *\0"]
