"""Prints the logs of ranks, every line tagged with its rank and host."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from yard.core.context import Context
from yard.core.errors import ClusterError, Exit, RequestError
from yard.core.room import check_writable
from yard.operations.runtime import as_it_ran
from yard.plays.contract import READ_LOGS
from yard.plays.events import Event
from yard.plays.play import fresh_log, play
from yard.runs.measurements import find_training
from yard.runs.output import Output, pieces_of
from yard.runs.record import FIRST_LINE, RANK_LOG, rank_log_files, read_run
from yard.runs.summary import is_over
from yard.screen.failures import show_failures

# One colour a rank, so that the eye can follow one of several.
RANK_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")


# Of the ranks that draw a bar, those that are shown.
MOST_BARS = 8


class LogView:
    """Prints what is new of each rank's log, one line after the other.

    Use as a context manager. On a terminal the lines that ranks still draw, as their bars, stand
    below, and before anything has come a sign of life.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._outputs: dict[int, Output] = {}
        self._hosts: dict[int, str] = {}
        self._waits = Spinner("dots", Text("Asking the nodes ..."), style="cyan")
        self._live = Live(console=console, get_renderable=self._below, transient=True)

    def __enter__(self) -> "LogView":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Print what is left of lines that were not ended."""
        self._live.stop()
        for rank, output in sorted(self._outputs.items()):
            self._print(rank, output.finish())

    @property
    def ranks(self) -> list[int]:
        """Ranks of which something has come."""
        return sorted(self._outputs)

    def show(self, rank: int, offset: int, end: int, text: str) -> None:
        """Print what of a piece has not been shown.

        Args:
            offset, end: where the piece begins and ends in the file, in bytes.
        """
        output = self._outputs.setdefault(rank, Output())
        if offset < output.end:
            text = text.encode(errors="replace")[output.end - offset :].decode(errors="replace")
        for piece in pieces_of(text):
            lines, _ = output.take(max(offset, output.end), piece)
            self._print(rank, lines)
            output.end = max(output.end, end)

    def _print(self, rank: int, lines: Iterable[str]) -> None:
        for line in lines:
            first = FIRST_LINE.search(line) if rank not in self._hosts else None
            if first:
                self._hosts[rank] = first["host"]
            self._console.print(self._tagged(rank, line), soft_wrap=True)

    def _tagged(self, rank: int, line: str) -> Text:
        tag = Text(f"[{rank} {self._hosts.get(rank, '?')}] ")
        tag.stylize(RANK_COLOURS[rank % len(RANK_COLOURS)])
        return tag + Text(line)

    def _below(self) -> RenderableType:
        if not self._outputs:
            return self._waits
        drawn = [
            self._tagged(rank, row)
            for rank, output in sorted(self._outputs.items())
            for row in output.rows
            if row
        ]
        for line in drawn:
            line.no_wrap, line.overflow = True, "ellipsis"
        return Group(*drawn[:MOST_BARS])


def show_logs(context: Context, name: str, rank: int | None, follow: bool = False) -> Exit:
    """Print the logs of all ranks, or of one: the collected ones, or those still on the nodes.

    Args:
        follow: go on until the run ends, or the user has seen enough.
    """
    run = find_training(context.project, name)
    with LogView(context.console) as view:
        if not is_over(run):
            check_writable(context.project.root)
            _show_live(context, run, rank, follow, view)
        # What the last look at the nodes missed has been collected meanwhile.
        files = rank_log_files(run)
        for number in files:
            if rank in (None, number):
                content = files[number].read_bytes()
                view.show(number, 0, len(content), content.decode(errors="replace"))
    there = sorted({*files, *view.ranks})
    if not there:
        why = f"; make report RUN={run.name} says why" if is_over(run) else ""
        raise RequestError(f"{run.name}: no rank has written a log{why}")
    if rank is not None and rank not in there:
        names = ", ".join(map(str, there))
        raise RequestError(f"{run.name}: there is no log of rank {rank}, only of {names}")
    return Exit.DONE


def _show_live(context: Context, run: Path, rank: int | None, follow: bool, view: LogView) -> None:
    manifest = read_run(run).manifest
    as_it_ran(context, manifest)
    inventory = Path(manifest.inventory_path)

    def take(event: Event) -> None:
        if event.module == READ_LOGS and event.kind in ("runner_on_ok", "runner_retry"):
            logs: Mapping[str, Mapping[str, Any]] = event.result.get("logs", {})
            named = [(RANK_LOG.fullmatch(name), piece) for name, piece in logs.items()]
            by_rank = {int(name["rank"]): piece for name, piece in named if name}
            for number, piece in sorted(by_rank.items()):
                view.show(number, piece["offset"], piece["end"], piece["text"])

    variables = {"training_run_id": run.name, "training_run_logs_follow": follow}
    if rank is not None:
        variables["training_run_logs_rank"] = rank
    log = fresh_log(context, "logs", inventory)

    def nobody_reads() -> bool:  # as with `| head`
        return context.console.quiet

    outcome = play(
        context,
        "logs",
        variables,
        take,
        log=log,
        inventory=inventory,
        unwanted=nobody_reads,
        # A node without a part in the run has no logs of it, and may not answer.
        limit=manifest.hosts,
    )
    # Files that are gone as the run ends are no failure: they have come home.
    told = [each for each in outcome.failures if each.unreachable or not view.ranks]
    show_failures(context, replace(outcome, failures=tuple(told)), inventory)
    if outcome.status == "failed" and not view.ranks:
        raise ClusterError("the nodes could not be asked")
