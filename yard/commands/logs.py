"""Prints the logs of ranks, every line tagged with its rank and host."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from yard.core.context import Context
from yard.core.errors import ClusterError, Exit, RequestError
from yard.operations.runtime import as_it_ran
from yard.plays.contract import READ_LOGS
from yard.plays.events import Event
from yard.plays.play import fresh_log, play
from yard.runs.record import FIRST_LINE, RANK_LOG, rank_log_files, read_run
from yard.runs.summary import is_over
from yard.screen.failures import show_failures

# One colour a rank, so that the eye can follow one of several.
RANK_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")


class LogView:
    """Prints what is new of each rank's log; pieces of a log may come again or overlap."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: dict[int, int] = {}
        self._hosts: dict[int, str] = {}

    @property
    def ranks(self) -> list[int]:
        """Ranks of which something has come."""
        return sorted(self._shown)

    def show(self, rank: int, offset: int, content: bytes) -> None:
        """Print the lines of a piece that have not been shown.

        Args:
            offset: where the piece begins in the file, in bytes, at the beginning of a line.
        """
        shown = self._shown.setdefault(rank, 0)
        if offset > shown:
            self._print(rank, f"({offset - shown:,} bytes of this log are not shown)")
        new = content[max(0, shown - offset) :]
        self._shown[rank] = max(shown, offset + len(content))
        for line in new.decode("utf-8", errors="replace").splitlines():
            first = FIRST_LINE.search(line) if rank not in self._hosts else None
            if first:
                self._hosts[rank] = first["host"]
            self._print(rank, line)

    def _print(self, rank: int, line: str) -> None:
        tag = Text(f"[{rank} {self._hosts.get(rank, '?')}] ")
        tag.stylize(RANK_COLOURS[rank % len(RANK_COLOURS)])
        self._console.print(tag + Text(line), soft_wrap=True)


def show_logs(context: Context, run: Path, rank: int | None, follow: bool = False) -> Exit:
    """Print the logs of all ranks, or of one: the collected ones, or those still on the nodes.

    Args:
        follow: go on until the run ends, or the user has seen enough.

    Raises:
        RequestError: there are no logs, or none of this rank.
        ClusterError: the nodes could not be asked.
    """
    view = LogView(context.console)
    if not is_over(run):
        _show_live(context, run, rank, follow, view)
    # What the last look at the nodes missed has been collected meanwhile.
    files = rank_log_files(run)
    for number in files:
        if rank in (None, number):
            view.show(number, 0, files[number].read_bytes())
    there = sorted({*files, *view.ranks})
    if not there:
        raise RequestError([f"{run.name}: no rank has written a log"])
    if rank is not None and rank not in there:
        names = ", ".join(map(str, there))
        raise RequestError([f"{run.name}: no log of rank {rank}; there are {names}"])
    return Exit.DONE


def _show_live(context: Context, run: Path, rank: int | None, follow: bool, view: LogView) -> None:
    """Print what the nodes have of a run that goes on."""
    manifest = read_run(run).manifest
    as_it_ran(context, manifest)
    inventory = Path(manifest.inventory_path)

    def take(event: Event) -> None:
        if event.module == READ_LOGS and event.kind in ("runner_on_ok", "runner_retry"):
            logs: Mapping[str, Mapping[str, Any]] = event.result.get("logs", {})
            named = [(RANK_LOG.fullmatch(name), piece) for name, piece in logs.items()]
            by_rank = {int(name["rank"]): piece for name, piece in named if name}
            for number, piece in sorted(by_rank.items()):
                view.show(number, piece["offset"], piece["text"].encode())

    variables = {"training_run_id": run.name, "training_run_logs_follow": follow}
    if rank is not None:
        variables["training_run_logs_rank"] = rank
    log = fresh_log(context, "logs", inventory)
    outcome = play(context, "logs", variables, take, log=log, inventory=inventory)
    if outcome.status == "failed" and not view.ranks:
        show_failures(context.console, outcome)
        raise ClusterError("the nodes could not be asked")
