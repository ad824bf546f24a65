"""Progress on a terminal: a display that moves."""

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from yard.core.words import duration
from yard.screen.plain_progress import PlainProgress
from yard.screen.progress import Progress

# Of the lines that a program draws again and again, as bars: those that are shown.
MOST_ROWS = 6
# A task is named when it has lasted so long, in seconds: those that are passed over, as what would
# remove something, are not.
LONG_TASK = 0.6


def make_progress(console: Console) -> Progress:
    """The display that fits where the output goes."""
    return LiveProgress(console) if console.is_terminal else PlainProgress(console)


class LiveProgress(Progress):
    """For a terminal: finished phases stay as lines, the current one moves below them."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._task = self._next_task = ""
        self._task_began = 0.0
        self._rows: Sequence[str] = ()
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(
            console=console, get_renderable=self._render, refresh_per_second=8, transient=True
        )

    def __enter__(self) -> "LiveProgress":
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        super().__exit__(kind, *error)
        self._live.stop()

    def task(self, text: str) -> None:
        if text != self._next_task:
            self._next_task, self._task_began = text, time.monotonic()

    def training(self, line: Any, received_at: float) -> None:
        lasting = self.view.update(line, received_at)
        if lasting is not None:
            self.console.print(f"  [green]✓[/] {escape(lasting)}")

    def output(self, lines: Sequence[str], rows: Sequence[str]) -> None:
        super().output(lines, rows)
        self._rows = rows[:MOST_ROWS]

    def _show_begin(self, text: str) -> None:
        self._task = self._next_task = ""

    def _show_end(self, text: str, seconds: float, ok: bool) -> None:
        mark = "[green]✓[/]" if ok else "[red]✗[/]"
        self.console.print(f"{mark} {escape(text)}  [dim]{duration(seconds)}[/]")

    def _render(self) -> RenderableType:
        if not self._phase:
            return Text()
        if self.view.has_begun and self._phase == self.view.phase:
            return self._training_lines()
        if time.monotonic() - self._task_began >= LONG_TASK:
            self._task = self._next_task
        seconds = duration(time.monotonic() - self._phase_began)
        line = Table.grid(padding=(0, 1))
        line.add_column(no_wrap=True)
        # Of columns that do not wrap rich would shorten all, the time to "4…".
        line.add_column()
        line.add_column(no_wrap=True, style="dim")
        text = f"{self._phase} · {self._task}" if self._task else self._phase
        line.add_row(self._spinner, Text(text, no_wrap=True, overflow="ellipsis"), seconds)
        return line

    def _training_lines(self) -> RenderableType:
        """Two lines, so that nothing wraps at 80 columns: the bar, and the numbers below it.

        What the program itself is drawing stands above them.
        """
        bar = Table.grid(padding=(0, 1), expand=True)
        bar.add_column(no_wrap=True)
        bar.add_column(ratio=1)
        bar.add_column(no_wrap=True)
        # Where the end is not known nothing is drawn that would look like a part of a whole.
        middle: RenderableType = Text()
        if self.view.extent is not None:
            done, whole = self.view.extent
            middle = ProgressBar(total=whole, completed=done, complete_style="cyan")
        bar.add_row(Text(self.view.phase), middle, Text(self.view.position(time.time())))
        indent = " " * (len(self.view.phase) + 1)
        numbers = self.view.numbers()
        below = [numbers] if numbers else []
        lines = [*self._rows, *(f"{indent}{text}" for text in below)]
        shown = [Text(line, no_wrap=True, overflow="ellipsis") for line in lines]
        return Group(*shown[: len(self._rows)], bar, *shown[len(self._rows) :])
