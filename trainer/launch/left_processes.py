"""Names the processes that a project's ranks left running when they ended well.

They end with the container, a training in the background too. They are noted in
`failures/left-<host>.json`, one entry for each command:

    [{"rank": 0, "pid": 93, "command": "python3 train.py"}]
"""

import contextlib
import json
import shlex
import time
from pathlib import Path

from trainer.atomic import write_json
from trainer.failure import FOLDER
from trainer.launch.processes import PROC, RankProcess, program_processes

# Workers of a data loader look every five seconds whether their program is there.
PATIENCE = 7.0
LOOK = 0.2
# Of a command
CHARACTERS = 200


def note_left_processes(run_dir: Path, host: str, patience: float = PATIENCE) -> None:
    """Wait a while for what the ranks of this node left, and note what still runs by then.

    Returns at once where a rank failed or was asked to end: what it left has no part in that.
    """
    deadline = time.monotonic() + patience
    while processes := list(program_processes()):
        statuses = {each.rank: _status(run_dir, each.rank) for each in processes}
        if any(statuses.values()):
            return
        if time.monotonic() > deadline:
            _note(run_dir, host, [each for each in processes if statuses[each.rank] == 0])
            return
        time.sleep(LOOK)


def _note(run_dir: Path, host: str, left: list[RankProcess]) -> None:
    found: dict[str, dict[str, int | str]] = {}
    for process in sorted(left, key=lambda each: (each.rank, each.pid)):
        command = _command(process.pid)
        found.setdefault(command, {"rank": process.rank, "pid": process.pid, "command": command})
    found.pop("", None)  # it has ended meanwhile
    with contextlib.suppress(OSError):
        if found:
            write_json(run_dir / FOLDER / f"left-{host}.json", list(found.values()))


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
        return shlex.join(words[:-1])[:CHARACTERS]
    return ""


def _status(run_dir: Path, rank: int) -> int | None:
    """How a rank ended; None where it runs, or wrote something else in the place of its end."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        return int(json.loads((run_dir / f"ranks/{rank}.json").read_bytes())["exit_status"])
    return None
