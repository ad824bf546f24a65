"""Runs mpirun on the first node of a run, and ends it when the ranks cannot get on any longer.

`python3 -m trainer.launch MPIRUN-ARGUMENT... [--then MPIRUN-ARGUMENT...]`, with in the environment

    TRAINYARD_RUN_DIR        the run directory
    TRAINYARD_PEERS          the other containers' sshd, `name=address:port` separated by spaces
    TRAINYARD_START_SECONDS  how long a run may take to its first step, 0 for ever
    TRAINYARD_STALL_SECONDS  how long it may then go without a step, 0 for ever

A second mpirun, behind `--then`, runs when the first has ended well. The output of both goes to
`logs/mpirun.log`. The file `exit_status` appears in the run directory
when mpirun has ended, and not before. Nothing here needs the control node: a run that hangs is
ended while nobody follows it.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from trainer.heartbeat import WAITS

REPORT = "/opt/trainyard/bin/hang-report"
THEN = "--then"
# Seconds: between two looks, for the peers' sshd, for a report, and for each step of the end.
TICK = 0.5
PEER_PATIENCE = 30.0
REPORT_PATIENCE = 8.0
END_PATIENCE = 5.0
# Seconds between two looks at the processor time of the ranks, and the share of a core below which
# a thread does not compute.
LOOK = 5.0
SHARE = 0.04
HARD = 10
# Bytes below which a disk counts as full: less than any checkpoint needs. The role training_run has
# the same limit in its node_facts.py, for when it ends a run.
FULL = 1_000_000
RANK = re.compile(rb"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)")


@dataclass(frozen=True)
class Limits:
    """How long a run may go on without a sign of life, in seconds; 0 means for ever."""

    start: float
    stall: float


@dataclass
class Watch:
    """Tells whether the ranks of this node get on, from what they touch in the run directory.

    Training is synchronous: what stops one rank stops all within a step, so those of this node
    speak for the others. A rank that computes is not taken for one that hangs: on a busy machine a
    batch may take long. Only after `HARD` times the limit it counts as lost.
    """

    run_dir: Path
    limits: Limits
    began_at: float
    _looked_at: float = 0.0
    _computed_at: float = 0.0
    _seconds: dict[int, float] = field(default_factory=dict)

    def trouble(self, now: float) -> str | None:
        """Return what is wrong, or None.

        Args:
            now: Unix seconds.
        """
        disk = os.statvfs(self.run_dir)
        if disk.f_bavail * disk.f_frsize < FULL:
            return f"the disk of {self.run_dir} is full"
        metrics = self.run_dir / "metrics.jsonl"
        # A run that starts again brings the metrics that it has.
        trains = metrics.exists() and metrics.stat().st_mtime > self.began_at
        limit = self.limits.stall if trains else self.limits.start
        beats = [path.stat().st_mtime for path in (self.run_dir / "ranks").glob("*.beat")]
        last = max([self.began_at, *beats]) if trains else self.began_at
        self._look_at_processors(now)
        if not limit or now - last < limit:
            return None
        if now - self._computed_at < limit and now - last < HARD * limit:
            return None
        if not trains:
            return f"the ranks have not begun to train within {limit:g} s"
        return f"no rank of this node has got on for {limit:g} s"

    def _look_at_processors(self, now: float) -> None:
        """Note whether the main thread of a rank has used a processor since the last look."""
        if now - self._looked_at < min(LOOK, (self.limits.stall or LOOK) / 4):
            return
        beats = (self.run_dir / "ranks").glob("*.beat")
        seconds = main_thread_seconds({int(b.stem) for b in beats if b.read_bytes() != WAITS})
        used = [seconds[pid] - self._seconds[pid] for pid in seconds if pid in self._seconds]
        if used and max(used) > SHARE * (now - self._looked_at):
            self._computed_at = now
        self._looked_at, self._seconds = now, seconds


def main_thread_seconds(ranks: Collection[int]) -> dict[int, float]:
    """Processor seconds of the main threads of some ranks in this container, by process id.

    A rank that waits is none of them: Horovod looks every millisecond whether the others are there.
    Fields 14 and 15 of proc(5) stat, in clock ticks; the name before them may hold anything.
    """
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            rank = RANK.search((process / "environ").read_bytes())
            if rank is None or int(rank[1]) not in ranks:
                continue
            stat = (process / "task" / process.name / "stat").read_text(encoding="utf-8")
            user, system = stat.rpartition(")")[2].split()[11:13]
            found[int(process.name)] = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return found


class Launcher:
    """One mpirun, or several in turn, and their log."""

    def __init__(self, run_dir: Path, arguments: Sequence[str], peers: Mapping[str, str]) -> None:
        self.run_dir = run_dir
        self.commands = split(arguments)
        self.peers = peers
        self._mpirun: subprocess.Popen[bytes] | None = None
        self._asked: int | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._received)

    def run(self, limits: Limits) -> int:
        """Run mpirun to its end and return its status, 128 and the signal's number after one.

        Of several the first that ends badly is the last.
        """
        with (self.run_dir / "logs" / "mpirun.log").open("ab", buffering=0) as log:
            if not self._await_peers(log):
                return 1
            status = 0
            for arguments in self.commands:
                if self._asked is not None:
                    return 128 + self._asked
                status = self._run_one(arguments, limits, log)
                if status:
                    break
        return status

    def _run_one(self, arguments: Sequence[str], limits: Limits, log: BinaryIO) -> int:
        """Run one mpirun to its end."""
        # A session of its own and no input: else it stops when it looks for a terminal.
        self._mpirun = subprocess.Popen(
            ["mpirun", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        watch = Watch(self.run_dir, limits, time.time())
        while self._wait(TICK) is None:
            trouble = watch.trouble(time.time())
            if trouble is not None and self._asked is None:
                _say(log, f"{trouble}; this is what they do:")
                self._report(log)
                self._end()
        status = self._mpirun.returncode
        if status < 0:
            name = signal.strsignal(-status)
            _say(log, f"mpirun on {socket.gethostname()} ended by signal {-status} ({name})")
        return 128 - status if status < 0 else status

    def _await_peers(self, log: BinaryIO) -> bool:
        """Wait for the other containers: mpirun gives up on the first that does not answer."""
        deadline = time.monotonic() + PEER_PATIENCE
        for name, address in self.peers.items():
            host, _, port = address.rpartition(":")
            while self._asked is None:
                try:
                    socket.create_connection((host, int(port)), timeout=2.0).close()
                    break
                except OSError as error:
                    if time.monotonic() > deadline:
                        _say(log, f"the container on {name} ({address}) cannot be reached: {error}")
                        return False
                    time.sleep(0.1)
        return True

    def _wait(self, seconds: float) -> int | None:
        assert self._mpirun is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._mpirun.wait(seconds)
        return None

    def _report(self, log: BinaryIO) -> None:
        """Have every node say what its ranks do, all at once; the ranks write their stacks."""
        asked = {socket.gethostname(): subprocess.Popen([REPORT], stdout=log, stderr=log)}
        for name in self.peers:
            ssh = ["ssh", "-o", "ConnectTimeout=5", name, REPORT]
            asked[name] = subprocess.Popen(ssh, stdout=log, stderr=log)
        deadline = time.monotonic() + REPORT_PATIENCE
        for name, report in asked.items():
            try:
                status = report.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                report.kill()
                status = report.wait()
            if status:
                _say(log, f"no answer from {name}")
        time.sleep(1.0)  # for the stacks

    def _end(self) -> None:
        """End mpirun, which ends the ranks: ask, then tell, then kill."""
        assert self._mpirun is not None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._mpirun.pid, number)
            if self._wait(END_PATIENCE) is not None:
                return

    def _received(self, number: int, frame: FrameType | None) -> None:
        self._asked = number
        if self._mpirun is not None:
            self._mpirun.send_signal(number)


def split(arguments: Sequence[str]) -> list[list[str]]:
    """The arguments of each mpirun, from those of the command line."""
    commands: list[list[str]] = [[]]
    for argument in arguments:
        if argument == THEN:
            commands.append([])
        else:
            commands[-1].append(argument)
    return commands


def _say(log: BinaryIO, text: str) -> None:
    # On a full disk the end goes on without words.
    with contextlib.suppress(OSError):
        log.write(f"trainyard: {text}\n".encode())


def main() -> int:
    """Launch as the environment says, and note the status."""
    environment = os.environ
    run_dir = Path(environment.get("TRAINYARD_RUN_DIR", "/run/trainyard"))
    peers = dict(peer.split("=", 1) for peer in environment.get("TRAINYARD_PEERS", "").split())
    limits = Limits(
        start=float(environment.get("TRAINYARD_START_SECONDS", "0")),
        stall=float(environment.get("TRAINYARD_STALL_SECONDS", "0")),
    )
    status = Launcher(run_dir, sys.argv[1:], peers).run(limits)
    noted = run_dir / ".exit_status"
    noted.write_text(f"{status}\n", encoding="ascii")
    noted.rename(run_dir / "exit_status")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
