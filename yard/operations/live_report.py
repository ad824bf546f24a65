"""Keeps the report of a run current while it is followed."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from yard.runs.summary import read_summary

# Between the beginnings of two drawings: at least so long, in seconds, and so many times what the
# last one took. That keeps the drawing below 1 % of one core, also where the ranks need that core.
LEAST_SECONDS = 10.0
TIMES_THE_COST = 100


class LiveReport:
    """Draws the report of a run that goes on, as often as that is worth its cost."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._due_at = 0.0
        self._cost = 0.0

    def draw_if_due(self, output: Sequence[str] = ()) -> Path | None:
        """Draw it, unless it is too early; returns the path of the first drawing of the run.

        `output` is the end of what the program has printed.
        A failure is kept beside the report, and the next drawing tries again.
        """
        began = time.monotonic()
        if began < self._due_at or read_summary(self._run) is not None:
            return None
        # Takes a while to import; nobody shall wait for that at the start.
        from yard.pages.index import write_index
        from yard.pages.report import errors_kept, write_live_report

        path = self._run / "report.html"
        is_first = not path.exists()
        # On a full disk the reason cannot be kept either; whatever the run itself writes says so.
        with suppress(OSError), errors_kept(self._run):
            imported = time.monotonic()
            write_live_report(self._run, time.time(), self._seconds, output)
            self._cost = time.monotonic() - imported
            if is_first:
                # From now on the page of all runs leads to it.
                write_index(self._run.parent)
        self._due_at = began + self._seconds
        return path if is_first and path.exists() else None

    @property
    def _seconds(self) -> float:
        """Between two drawings."""
        return max(LEAST_SECONDS, TIMES_THE_COST * self._cost)
