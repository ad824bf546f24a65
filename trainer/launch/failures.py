"""What a launch leaves about a failure: sentences for people, codes and values for programs."""

import contextlib
from pathlib import Path
from typing import BinaryIO

from trainer.atomic import write_json
from trainer.failure import FOLDER
from trainer.problems import Problem


class LaunchFailures:
    """The problems of a launch, in the order in which they were noticed.

    On a full disk neither file takes them, and the launch ends all the same.

    Args:
        run_dir: the run directory, whose `failures/launcher.json` is written anew with each.
        log: `logs/mpirun.log`, which takes the sentences.
    """

    def __init__(self, run_dir: Path, log: BinaryIO) -> None:
        self._path = run_dir / FOLDER / "launcher.json"
        self._log = log
        self._problems: list[Problem] = []

    def add(self, problem: Problem) -> None:
        """Keep a problem."""
        self._problems.append(problem)
        self.say(problem.text)
        with contextlib.suppress(OSError):
            write_json(self._path, [problem.to_json() for problem in self._problems])

    def say(self, text: str) -> None:
        """Write a line into the log, told apart from those of mpirun by its beginning."""
        with contextlib.suppress(OSError):
            self._log.write(f"trainyard: {text}\n".encode())
