"""What every display of a command's progress has; see `make_progress` for the two kinds."""

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from yard.plays.contract import CHECK, FOLLOW, START, STOP, TAKE
from yard.screen.training_view import TrainingView, View

# What the screen calls the phases of a launch, see `yard.plays.contract`.
PHASE_TEXTS = {
    CHECK: "Checking nodes",
    TAKE: "Taking nodes",
    START: "Starting containers",
    FOLLOW: "Starting ranks",
    STOP: "Collecting logs",
}
# Of the lines that a program prints between two polls.
MOST_AT_ONCE = 200
STOPPING = "Stopping and collecting logs"


class Progress:
    """The screen during one command. Use as a context manager; both kinds have the same methods.

    Attributes:
        view: what is known of the run that is followed; its kind is that of the run.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.view: View[Any] = TrainingView()
        self._phase = ""
        self._phase_began = 0.0
        self._phase_ok = True

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:
            self.fail()
        self._end_phase()

    def phase(self, text: str) -> None:
        """Begin a phase; the one before is over. The same phase again changes nothing."""
        if text == self._phase:
            return
        self._end_phase()
        self._phase, self._phase_began, self._phase_ok = text, time.monotonic(), True
        self._show_begin(text)

    def fail(self) -> None:
        """Remember that something in the current phase failed, for when it ends."""
        self._phase_ok = False

    def forget(self) -> None:
        """End the current phase without a word."""
        self._phase = ""

    def task(self, text: str) -> None:
        """Say what is being done within the phase."""
        raise NotImplementedError

    def training(self, line: Any, received_at: float) -> None:
        """Show a new line of the metrics, of the kind that the view takes."""
        raise NotImplementedError

    def output(self, lines: Sequence[str], rows: Sequence[str]) -> None:
        """Show what the program has printed, which has no control characters any more.

        Args:
            rows: the last ones, which it may draw again.
        """
        more = len(lines) - MOST_AT_ONCE
        if more > 0:
            self._print_line(f"({more:,} lines are not shown here; the log has them)")
        for line in lines[-MOST_AT_ONCE:]:
            self._print_line(line)

    def _print_line(self, line: str) -> None:
        self.console.print(Text(line), soft_wrap=True)

    def goes_on(self) -> None:
        """Show that the run goes on, though there is no new line."""

    def note(self, text: str) -> None:
        """Print a line that stays."""
        self.console.print(escape(text))

    def _end_phase(self) -> None:
        if self._phase:
            seconds = time.monotonic() - self._phase_began
            text, self._phase = self._phase, ""
            self._show_end(text, seconds, self._phase_ok)

    def _show_begin(self, text: str) -> None:
        raise NotImplementedError

    def _show_end(self, text: str, seconds: float, ok: bool) -> None:
        raise NotImplementedError
