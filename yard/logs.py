"""Prints collected logs, every line tagged with its rank and host."""

from pathlib import Path

from rich.console import Console
from rich.text import Text

from yard.errors import RequestError
from yard.run import FIRST_LINE

# One colour a rank, so that the eye can follow one of several.
RANK_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")


def show_logs(console: Console, run: Path, rank: int | None) -> None:
    """Print the logs of all ranks, or of one.

    Raises:
        RequestError: the run has no logs, or none of this rank.
    """
    files = sorted((run / "logs").glob("rank-*.log"), key=_rank)
    chosen = [path for path in files if rank in (None, _rank(path))]
    if not files:
        raise RequestError([f"{run.name}: no logs have been collected"])
    if not chosen:
        there = ", ".join(str(_rank(path)) for path in files)
        raise RequestError([f"{run.name}: no log of rank {rank}; there are {there}"])
    for path in chosen:
        _show(console, path)


def _show(console: Console, path: Path) -> None:
    rank = _rank(path)
    with path.open(encoding="utf-8", errors="replace") as lines:
        found = FIRST_LINE.search(lines.readline())
        lines.seek(0)
        tag = Text(f"[{rank} {found['host'] if found else '?'}] ")
        tag.stylize(RANK_COLOURS[rank % len(RANK_COLOURS)])
        for line in lines:
            console.print(tag + Text(line.rstrip("\n")), soft_wrap=True)


def _rank(path: Path) -> int:
    return int(path.stem.removeprefix("rank-"))
