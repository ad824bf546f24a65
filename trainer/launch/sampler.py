"""Samples what a project takes of this node: `python3 -P -m trainer.launch.sampler RANK`.

The trainer does so itself, from a thread of its first rank on a node; of a project's program
docker/trainer/bin/rank starts this beside its first rank, ends it, and waits for it: it names the
processes that the ranks left, and keeps what they left in places that end with the container, until
SIGURG. On the first node the launcher does the latter.
"""

import os
import signal
import sys
from types import FrameType

from trainer.launch.connections import NodeLook
from trainer.launch.container_files import Stopped, container_places, keep_container_files
from trainer.launch.left_processes import note_left_processes
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


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGURG, signal.SIG_IGN)
    raise Stopped


def main() -> None:
    """Sample until a signal comes."""
    hosts = Project.read(program_file(os.environ)).hosts
    look = NodeLook(hosts, os.environ)
    # The default would end this process at once, so it comes with that ignored.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with UtilisationSampler(utilisation_file(run_dir(os.environ)), first_processes, look):
        # One that came too early is lost; the rank has written its end before.
        if not (run_dir(os.environ) / f"ranks/{sys.argv[1]}.json").exists():
            signal.sigwait({signal.SIGTERM})
    host = os.uname().nodename
    note_left_processes(run_dir(os.environ), host)
    if host != hosts[0]:
        signal.signal(signal.SIGURG, _stop)
        keep_container_files(run_dir(os.environ), host, container_places())


if __name__ == "__main__":
    main()
