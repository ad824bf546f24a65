"""Samples what a project takes of this node: `python3 -P -m trainer.launch.sampler`.

The trainer does so itself, from a thread of its first rank on a node; of a project's program
docker/trainer/bin/rank starts this beside its first rank, and ends it.
"""

import os
import signal

from trainer.launch.connections import NodeLook
from trainer.launch.processes import rank_processes
from trainer.launch.program import Project
from trainer.launch.settings import program_file, run_dir
from trainer.utilisation import UtilisationSampler, utilisation_file


def first_processes() -> dict[int, int]:
    """The process id of each rank here; of a rank with several processes that of the first."""
    first: dict[int, int] = {}
    for process in rank_processes():
        first[process.rank] = min(process.pid, first.get(process.rank, process.pid))
    return first


def main() -> None:
    """Sample until a signal comes."""
    look = NodeLook(Project.read(program_file(os.environ)).hosts, os.environ)
    with UtilisationSampler(utilisation_file(run_dir(os.environ)), first_processes, look):
        signal.pause()


if __name__ == "__main__":
    main()
