"""The log that a script made itself, of a rank whose own one is empty: `python3 train.py > log`."""

import re
from itertools import islice
from pathlib import Path

# What such files are called, and how many of a rank's files are looked at
LOGS = frozenset({".log", ".out", ".txt", ".err"})
MOST = 10_000
# What the launch and a shell write into a rank's own log
NO_WORDS = re.compile(r"(?:rank \d+ of \d+ on .*|Terminated|\s*)")


def redirected_log(home: Path, rank: int, said: str) -> Path | None:
    """The newest log that came home of a rank, or of its node, where its own one says nothing.

    Args:
        home: the files of its node.
        said: the rank's own log.
    """
    if not all(map(NO_WORDS.fullmatch, said.splitlines())):
        return None
    there = islice(home.rglob("*"), MOST)
    logs = [path for path in there if path.suffix in LOGS and path.is_file()]
    of_rank = re.compile(rf"(?<!\d){rank}(?!\d)")
    return max(
        logs,
        key=lambda path: (bool(of_rank.search(path.name)), path.stat().st_mtime, path.name),
        default=None,
    )
