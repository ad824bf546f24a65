"""Runs one mpirun after the other, watches the ranks, and ends what hangs."""

import signal
import socket
import time
from collections.abc import Sequence
from types import FrameType
from typing import BinaryIO

from trainer.launch.failures import LaunchFailures
from trainer.launch.mpirun import Mpirun
from trainer.launch.peers import await_peers
from trainer.launch.reports import collect_reports
from trainer.launch.settings import LaunchSettings
from trainer.launch.watch import Watch
from trainer.problems import Problem, Scalar

# Seconds between two looks at the ranks.
TICK = 0.5
# Seconds for the ranks to write their stacks.
STACKS_PATIENCE = 1.0


class Supervisor:
    """The launch of a run. An interrupt or a termination goes on to the mpirun that runs."""

    def __init__(self, settings: LaunchSettings) -> None:
        self._settings = settings
        self._mpirun: Mpirun | None = None
        self._signal: int | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._received)

    def run(self, commands: Sequence[Sequence[str]]) -> int:
        """Run all to their end and return the status, 128 and the signal's number after one.

        The first that ends badly is the last.

        Args:
            commands: the arguments of every mpirun.
        """
        with (self._settings.run_dir / "logs" / "mpirun.log").open("ab", buffering=0) as log:
            failures = LaunchFailures(self._settings.run_dir, log)
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
        watch = Watch(self._settings.run_dir, self._settings.limits, time.monotonic())
        self._mpirun = Mpirun(arguments, log)
        while (status := self._mpirun.wait(TICK)) is None:
            problem = watch.problem(time.monotonic())
            if problem is not None and self._signal is None:
                failures.add(problem)
                failures.say("this is what they do:")
                for report in collect_reports(self._settings.peers, log):
                    failures.add(report)
                time.sleep(STACKS_PATIENCE)
                self._mpirun.end()
        if status >= 0:
            return status
        word = signal.strsignal(-status) or "unknown"
        values: dict[str, Scalar] = {"host": socket.gethostname(), "signal": -status, "word": word}
        failures.add(Problem("mpirun_killed", values))
        return 128 - status

    def _received(self, number: int, frame: FrameType | None) -> None:
        self._signal = number
        if self._mpirun is not None:
            self._mpirun.send(number)
