"""Progress in files and pipes: plain lines."""

import math
import threading
import time
from typing import Any

from rich.console import Console

from yard.core.words import duration
from yard.screen.progress import Progress

# In seconds: distance of two lines of steps, how long a task takes that is worth a line, and when
# the line is repeated.
PLAIN_INTERVAL = 10.0
LONG_TASK = 3.0
REPEAT_INTERVAL = 60.0


class PlainProgress(Progress):
    """For files and pipes: few lines, no control codes.

    A phase and an epoch are a line each, steps one about every ten seconds. Of the tasks those are
    named that take a while, and again every minute: a build of many minutes shall not look like the
    task before it, nor like a hang.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._task = ""
        self._task_began = 0.0
        self._task_printed_at: float | None = None
        self._printed_at = -math.inf
        self._over = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> "PlainProgress":
        self._ticker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._over.set()
        self._ticker.join()
        super().__exit__(kind, *error)

    def task(self, text: str) -> None:
        if text != self._task:
            self._task_began, self._task_printed_at = time.monotonic(), None
            self._task = text

    def training(self, line: Any, received_at: float) -> None:
        lasting = self.view.update(line, received_at)
        if lasting is not None:
            self.note(f"  {lasting}")
        else:
            self._note_position(PLAIN_INTERVAL)

    def goes_on(self) -> None:
        self._note_position(REPEAT_INTERVAL)

    def _note_position(self, interval: float) -> None:
        """Say where the run is, if nothing has been said for a while, in seconds."""
        if self.view.has_begun and time.monotonic() - self._printed_at >= interval:
            parts = (self.view.position(time.time()), self.view.numbers())
            self.note(f"  {' · '.join(filter(None, parts))}")

    def note(self, text: str) -> None:
        self._printed_at = time.monotonic()
        super().note(text)

    def _show_begin(self, text: str) -> None:
        self._task = ""
        self.note(f"{text} ...")
        self._printed_at = -math.inf

    def _show_end(self, text: str, seconds: float, ok: bool) -> None:
        if not ok:
            self.note(f"{text}: not completed, after {duration(seconds)}")

    def _tick(self) -> None:
        """Look at the current task now and then: no event comes while it goes on."""
        while not self._over.wait(0.5):
            if self._task and self._phase != self.view.phase:
                self._name_task(time.monotonic())

    def _name_task(self, now: float) -> None:
        lasted = now - self._task_began
        if self._task_printed_at is None:
            if lasted >= LONG_TASK:
                self._task_printed_at = now
                self.note(f"  {self._task}")
        elif now - self._task_printed_at >= REPEAT_INTERVAL:
            self._task_printed_at = now
            self.note(f"  {self._task}, {duration(lasted)} so far")
