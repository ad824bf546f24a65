"""What every rank in this container does: `python3 -m trainer.launch.hang_report [--goes-on]`.

Prints a JSON line for each rank, `{"code", "values"}` as trainer/problems.py has them, and has
each write its Python stack into its log. With `--goes-on` one that is stopped stays so.
"""

import contextlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from trainer.heartbeat import WAITS, clock
from trainer.launch.beats import mark_of, read_beat
from trainer.launch.processes import RankProcess, program_processes, rank_processes
from trainer.launch.reports import GOES_ON
from trainer.launch.settings import run_dir
from trainer.mounts import Mount, mounts
from trainer.problems import Problem, Scalar

# The signal at which the Python of a project's program writes its stacks; the image has it so, in
# docker/trainer/python/trainyard_stacks.py.
STACKS = signal.SIGRTMAX - 8
# Where data sets are mounted.
DATA = Path("/data")
# Seconds that a file system may take to answer.
PATIENCE = 2.0


def main() -> None:
    """Report on all ranks of this container."""
    directory = run_dir(os.environ)
    silent = silent_mount(directory)
    programs = {process.pid: process for process in program_processes()}
    processes = programs | {process.pid: process for process in rank_processes()}
    for process in processes.values():
        problem = describe(process, directory, silent)
        if problem is not None:
            print(json.dumps(problem.to_json()), flush=True)
            # One that is stopped writes its stack when it goes on.
            with contextlib.suppress(ProcessLookupError):
                ask_for_stack(process, process.pid in programs)
                if GOES_ON not in sys.argv[1:]:
                    os.kill(process.pid, signal.SIGCONT)


def ask_for_stack(process: RankProcess, is_program: bool) -> None:
    """Have a rank write its stack, if it knows the signal: others would be ended by it.

    Args:
        is_program: it is of a project, whose SIGUSR1 may mean something of its own.

    Raises:
        ProcessLookupError: it has ended.
    """
    number = STACKS if is_program else signal.SIGUSR1
    if process.catches(number):
        os.kill(process.pid, number)


def describe(process: RankProcess, run_dir: Path, silent: Mount | None) -> Problem | None:
    """Say what a rank does; None where it has ended.

    Args:
        silent: the file system that does not answer, if there is one.
    """
    state, began_at = process.state(), process.began_at()
    if state is None or began_at is None:
        return None
    beat = read_beat(run_dir, process.rank)
    last = began_at if beat is None else beat.moment
    values: dict[str, Scalar] = {
        "rank": process.rank,
        "host": os.uname().nodename,
        "pid": process.pid,
        # A rank may write that it beats tomorrow.
        "seconds": max(0, int(min(clock() - last, since_output(run_dir, process.rank)))),
    }
    waits_for_ranks = beat is not None and beat.state == WAITS
    if state in ("T", "t"):
        return Problem("rank_stopped", values)
    if waits_for_ranks and state in ("S", "R"):
        return Problem("rank_waits_for_ranks", values)
    if state == "R":
        return Problem("rank_computes", values)
    if state in ("S", "D"):
        # Its main thread may wait for another one that reads.
        if silent is not None:
            return Problem("rank_waits_for_share", {**values, "share": str(silent)})
        if state == "D" or process.waits_in_kernel():
            return Problem("rank_waits_for_disk", values)
        return Problem("rank_waits", values)
    return None


def since_output(run_dir: Path, rank: int) -> float:
    """Seconds since a rank wrote into its log; without end where it has none.

    By the clock of files, which may be set: it is for people, and nothing is decided by it.
    """
    mark = mark_of(run_dir / "logs" / f"rank-{rank}.log")
    return math.inf if mark is None else time.time() - mark[2] / 1e9


def silent_mount(directory: Path) -> Mount | None:
    """Return the first mount of data, or of the run directory, that does not answer in time.

    A network share whose server is silent keeps whoever asks waiting, and not every kind of it
    shows in a process's state. So it is asked, by a process that nobody waits for: where even a
    kill does not end that one, the container's end does.
    """
    for mount in reversed(mounts()):
        if not (Path(mount.point).is_relative_to(DATA) or Path(mount.point) == directory):
            continue
        question = subprocess.Popen(
            ["stat", "--file-system", mount.point],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert question.stdout is not None
        answered, _, _ = select.select([question.stdout], [], [], PATIENCE)
        if not answered:
            return mount
    return None


if __name__ == "__main__":
    main()
