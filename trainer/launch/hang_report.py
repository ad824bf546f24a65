"""What every rank in this container does: `python3 -m trainer.launch.hang_report`.

Prints a JSON line for each rank, `{"code", "values"}` as trainer/problems.py has them, and has
each write its Python stack into its log.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
from pathlib import Path

from trainer.heartbeat import WAITS, clock
from trainer.launch.beats import read_beat
from trainer.launch.processes import RankProcess, rank_processes
from trainer.launch.settings import run_dir
from trainer.mounts import Mount, mounts
from trainer.problems import Problem, Scalar

# Where data sets are mounted.
DATA = Path("/data")
# Seconds that a file system may take to answer.
PATIENCE = 2.0


def main() -> None:
    """Report on all ranks of this container."""
    directory = run_dir(os.environ)
    silent = silent_mount(directory)
    for process in rank_processes():
        problem = describe(process, directory, silent)
        if problem is not None:
            print(json.dumps(problem.to_json()), flush=True)
            # One that is stopped writes its stack when it goes on.
            with contextlib.suppress(ProcessLookupError):
                # It would end a program that does not know the signal.
                if process.catches(signal.SIGUSR1):
                    os.kill(process.pid, signal.SIGUSR1)
                os.kill(process.pid, signal.SIGCONT)


def describe(process: RankProcess, run_dir: Path, silent: Mount | None) -> Problem | None:
    """Say what a rank does; None where it has ended.

    Args:
        process: the rank.
        run_dir: the run directory, where its sign of life is.
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
        "seconds": max(0, int(clock() - last)),
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
