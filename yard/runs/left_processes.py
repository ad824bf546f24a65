"""`failures/left-<host>.json`: the processes that a program left running when it ended well."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from yard.core.files import read_list
from yard.core.words import printable

# Of one node, and so much of a command; a rank can write anything there.
MOST, CHARACTERS = 3, 100


def left_processes(run: Path, hosts: Collection[str]) -> tuple[str, ...]:
    """What people read of them: a sentence, of the first node that has any; none without them."""
    for host in hosts:
        noted = read_list(run / "failures" / f"left-{host}.json")
        whole = [each for each in noted if _is_whole(each)]
        if whole:
            named = ", ".join(
                f"{printable(each['command'])[:CHARACTERS]} (pid {each['pid']})"
                for each in whole[:MOST]
            )
            return (
                f"processes were still running on {host} when rank {whole[0]['rank']} had ended, "
                f"and were ended with the run: {named}. A run lasts as long as its program: have "
                "it wait for what it starts (Popen.wait(), os.waitpid; `wait` in a script), and "
                "start no training in the background",
            )
    return ()


def _is_whole(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("command"), str)
        and all(type(entry.get(name)) is int for name in ("rank", "pid"))
    )
