"""Runs one mpirun after the other, watches the ranks, and ends a run that hangs."""

import contextlib
import math
import os
import random
import signal
import socket
import time
from collections.abc import Sequence
from types import FrameType
from typing import BinaryIO

from trainer.launch.container_files import Stopped, container_places, keep_container_files
from trainer.launch.copies import WORKDIR, WORKDIR_COPIES, CheckpointCopies
from trainer.launch.failures import LaunchFailures
from trainer.launch.mpirun import Mpirun
from trainer.launch.peers import await_peers
from trainer.launch.reports import collect_reports
from trainer.launch.settings import LaunchSettings
from trainer.launch.silences import note_silence
from trainer.launch.watch import Watch
from trainer.network import listen
from trainer.problems import Problem, Scalar

# Seconds between two looks at the ranks.
TICK = 0.5
# Seconds for the ranks to write their stacks.
STACKS_PATIENCE = 1.0
# Where the ranks of torch meet: around the port that torchrun's users know, 29500, and below those
# that Linux gives to outgoing connections (net.ipv4.ip_local_port_range).
TORCH_PORTS = range(29000, 30000)


class Supervisor:
    """The launch of a run. An interrupt or a termination goes on to the mpirun that runs."""

    def __init__(self, settings: LaunchSettings) -> None:
        self._settings = settings
        self._mpirun: Mpirun | None = None
        self._signal: int | None = None
        self._asked_at = math.inf
        self._is_keeping = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._received)

    def run(self, commands: Sequence[Sequence[str]]) -> int:
        """Run all to their end and return the status, 128 and the signal's number after one.

        The first that ends badly is the last.
        """
        with (self._settings.run_dir / "logs" / "mpirun.log").open("ab", buffering=0) as log:
            failures = LaunchFailures(self._settings.run_dir, log)
            if self._settings.is_project:
                os.environ |= meeting_point(self._settings.address)
            problem = await_peers(self._settings.peers, lambda: self._signal is not None)
            if problem is not None:
                failures.add(problem)
                return 1
            status = 0
            for arguments in commands:
                if self._signal is not None:
                    return 128 + self._signal
                status = self._run_one(arguments, log, failures)
                if status:
                    break
        return status

    def _run_one(self, arguments: Sequence[str], log: BinaryIO, failures: LaunchFailures) -> int:
        """Run one mpirun to its end."""
        watch = Watch(
            self._settings.run_dir,
            self._settings.limits,
            time.monotonic(),
            self._settings.is_project,
        )
        copies = self._copies(log, failures)
        self._mpirun = Mpirun(arguments, log)
        while (status := self._mpirun.wait(TICK)) is None:
            for copy in copies:
                copy.look(time.monotonic())
            problem = watch.problem(time.monotonic())
            if problem is not None and self._signal is None:
                failures.add(problem)
                failures.say("this is what they do:")
                for report in collect_reports(self._settings.peers, log):
                    failures.add(report)
                time.sleep(STACKS_PATIENCE)
                self._mpirun.end()
            silent = watch.silence(time.monotonic())
            if silent is not None and problem is None and self._signal is None:
                self._tell_silence(silent, log, failures)
                watch.disregard_changes()
            if time.monotonic() > self._asked_at + self._settings.grace:
                self._mpirun.end()
        for copy in copies:
            copy.close()
        if self._settings.is_project:
            self._is_keeping = True
            keep_container_files(self._settings.run_dir, socket.gethostname(), container_places())
            self._is_keeping = False
        if self._settings.is_project and self._signal is not None:
            # The program may have ended well when it was asked to; the run has not.
            return 128 + self._signal
        if status >= 0:
            return status
        word = signal.strsignal(-status) or "unknown"
        values: dict[str, Scalar] = {"host": socket.gethostname(), "signal": -status, "word": word}
        failures.add(Problem("mpirun_killed", values))
        return 128 - status

    def _copies(self, log: BinaryIO, failures: LaunchFailures) -> list[CheckpointCopies]:
        """What copies the checkpoints, and those that a project has in its working directory."""
        settings = self._settings
        common = (settings.run_dir, list(settings.peers), settings.copy_megabytes)
        copies = [CheckpointCopies(*common, log, failures.say)]
        if settings.checkpoint_files:
            pattern = settings.checkpoint_files
            copies.append(
                CheckpointCopies(*common, log, failures.say, WORKDIR, WORKDIR_COPIES, pattern)
            )
        return copies

    def _tell_silence(self, seconds: int, log: BinaryIO, failures: LaunchFailures) -> None:
        """Have all ranks write their stacks, and record it; the run continues."""
        failures.say(
            f"no output, no metrics and no processor use for {seconds} s; "
            "the run continues. This is what the ranks do:"
        )
        for report in collect_reports(self._settings.peers, log, goes_on=True):
            failures.say(report.text)
        time.sleep(STACKS_PATIENCE)
        note_silence(self._settings.run_dir, seconds)

    def _received(self, number: int, frame: FrameType | None) -> None:
        self._signal = number
        if self._is_keeping:
            self._is_keeping = False
            raise Stopped
        if self._mpirun is None:
            return
        if self._settings.is_project:
            # mpirun itself would kill the ranks half a second after it has asked them to end. This
            # signal it hands on, and docker/trainer/bin/rank makes a request to end of it.
            self._asked_at = min(self._asked_at, time.monotonic())
            self._mpirun.send(signal.SIGURG)
        else:
            self._mpirun.send(number)


def meeting_point(address: str) -> dict[str, str]:
    """Where the ranks of torch meet: this node, which has rank 0, and a port that is free now."""
    # It is not held until rank 0 listens there, seconds later, and runs of one node may start at
    # the same time: each takes one at random. The kernel's own choice could become the port of an
    # outgoing connection by then.
    for port in random.sample(TORCH_PORTS, len(TORCH_PORTS)):
        with contextlib.suppress(OSError), listen(address, port):
            return {"MASTER_ADDR": address, "MASTER_PORT": str(port)}
    with listen(address) as free:
        return {"MASTER_ADDR": address, "MASTER_PORT": str(free.getsockname()[1])}
