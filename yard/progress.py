"""What the screen shows meanwhile: a live display on a terminal, plain lines elsewhere."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from yard.metrics import Metric

# Phases of a launch, by the task file of role training_run they stand in. The role's files are
# named after what they do, so a task added to one needs no change here.
PHASES: Mapping[str, str] = {
    "check": "Checking nodes",
    "take": "Taking nodes",
    "start": "Starting containers",
    "follow": "Starting ranks",
    "stop": "Collecting logs",
}
# From the first line of the metrics on: until then the ranks read their data and find each other.
TRAINING = "Training"
STOPPING = "Stopping and collecting logs"
# Phases of a launch in which nothing has been started yet.
NOTHING_STARTED = ("check", "take")
LAUNCH_ROLE = "training_run"
FOLLOW_TASK = "Follow the run"
# Where there is no terminal, in seconds: distance of two lines of steps, how long a task takes that
# is worth a line, and when the line is repeated.
PLAIN_INTERVAL = 10.0
LONG_TASK = 3.0
REPEAT_INTERVAL = 60.0


def phase_of(role: str, task_file: str) -> str | None:
    """The phase a task belongs to, a key of `PHASES`; None outside of the launch role."""
    stem = PurePath(task_file).stem
    return stem if role == LAUNCH_ROLE and stem in PHASES else None


@dataclass
class TrainingView:
    """The newest numbers of a training, and the text they come to.

    `time_left` extrapolates from the mean time of a step so far, evaluation included.
    """

    start: Metric | None = None
    newest: Metric | None = None
    accuracy: float | None = None
    received_at: float = 0.0

    def update(self, metric: Metric, received_at: float) -> None:
        """Take in one line of the metrics; lines come in the trainer's order."""
        if metric.event == "start":
            self.start = metric
        if metric.event == "epoch":
            self.accuracy = metric.accuracy
        if metric.event == "step":
            self.newest = metric
            self.received_at = received_at

    def time_left(self, now: float) -> float | None:
        """Seconds until the last step; None until two steps have been seen."""
        if self.start is None or self.newest is None or self.newest.step < 2:
            return None
        seconds_per_step = (self.newest.time - self.start.time) / self.newest.step
        left = seconds_per_step * (self.newest.steps - self.newest.step)
        return max(0.0, left - (now - self.received_at))

    def position(self, now: float) -> str:
        """Where the training is, like `step 40/469 · 1:23 left`."""
        if self.newest is None:
            return "waiting for the first step"
        left = self.time_left(now)
        parts = [f"step {self.newest.step}/{self.newest.steps}"]
        if left is not None:
            parts.append(f"{clock(left)} left")
        return " · ".join(parts)

    def numbers(self) -> str:
        """How it goes, like `epoch 1/3 · loss 2.104 · accuracy 38.1 % · 121 images/s`."""
        if self.newest is None:
            return ""
        parts = [f"epoch {self.newest.epoch}/{self.newest.epochs}"]
        if self.newest.loss is not None:
            parts.append(f"loss {self.newest.loss:.3f}")
        if self.accuracy is not None:
            parts.append(f"test accuracy {percent(self.accuracy)}")
        if self.newest.images_per_second is not None:
            parts.append(f"{self.newest.images_per_second:,.0f} images/s")
        return " · ".join(parts)


class Progress:
    """The screen during one command. Use as a context manager; both kinds have the same methods."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.view = TrainingView()
        self._phase = ""
        self._phase_began = 0.0
        self._phase_ok = True

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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

    def task(self, text: str) -> None:
        """Say what is being done within the phase."""
        raise NotImplementedError

    def training(self, metric: Metric, received_at: float) -> None:
        """Show a new line of the metrics."""
        raise NotImplementedError

    def note(self, text: str) -> None:
        """Print a line that stays."""
        self.console.print(escape(text), soft_wrap=True)

    def _end_phase(self) -> None:
        if self._phase:
            seconds = time.monotonic() - self._phase_began
            text, self._phase = self._phase, ""
            self._show_end(text, seconds, self._phase_ok)

    def _show_begin(self, text: str) -> None:
        raise NotImplementedError

    def _show_end(self, text: str, seconds: float, ok: bool) -> None:
        raise NotImplementedError


class LiveProgress(Progress):
    """For a terminal: finished phases stay as lines, the current one moves below them."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._task = ""
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(
            console=console, get_renderable=self._render, refresh_per_second=8, transient=True
        )

    def __enter__(self) -> "LiveProgress":
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._live.stop()

    def task(self, text: str) -> None:
        self._task = text

    def training(self, metric: Metric, received_at: float) -> None:
        self.view.update(metric, received_at)
        if metric.event == "epoch":
            self.console.print(f"  [green]✓[/] {epoch_line(metric)}")

    def _show_begin(self, text: str) -> None:
        self._task = ""

    def _show_end(self, text: str, seconds: float, ok: bool) -> None:
        mark = "[green]✓[/]" if ok else "[red]✗[/]"
        self.console.print(f"{mark} {escape(text)}  [dim]{duration(seconds)}[/]")

    def _render(self) -> RenderableType:
        if not self._phase:
            return Text()
        if self.view.newest is not None and self._phase == TRAINING:
            return self._training_bar(self.view.newest)
        seconds = duration(time.monotonic() - self._phase_began)
        line = Table.grid(padding=(0, 1))
        line.add_column(no_wrap=True)
        line.add_column(no_wrap=True, overflow="ellipsis")
        line.add_column(no_wrap=True, style="dim")
        text = f"{self._phase} · {self._task}" if self._task else self._phase
        line.add_row(self._spinner, Text(text), seconds)
        return line

    def _training_bar(self, newest: Metric) -> RenderableType:
        """Two lines, so that nothing wraps at 80 columns: the bar, and the numbers below it."""
        bar = Table.grid(padding=(0, 1), expand=True)
        bar.add_column(no_wrap=True)
        bar.add_column(ratio=1)
        bar.add_column(no_wrap=True)
        bar.add_row(
            Text(TRAINING),
            ProgressBar(total=newest.steps, completed=newest.step, complete_style="cyan"),
            Text(self.view.position(time.time())),
        )
        numbers = Text(f"         {self.view.numbers()}", no_wrap=True, overflow="ellipsis")
        return Group(bar, numbers)


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
        self._printed_at = 0.0
        self._over = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> "PlainProgress":
        self._ticker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._ticker.join()
        super().__exit__(kind, error, trace)

    def task(self, text: str) -> None:
        if text != self._task:
            self._task_began, self._task_printed_at = time.monotonic(), None
            self._task = text

    def training(self, metric: Metric, received_at: float) -> None:
        self.view.update(metric, received_at)
        if metric.event == "epoch":
            self.note(f"  {epoch_line(metric)}")
        elif metric.event == "step" and time.monotonic() - self._printed_at >= PLAIN_INTERVAL:
            self.note(f"  {self.view.position(time.time())} · {self.view.numbers()}")

    def note(self, text: str) -> None:
        self._printed_at = time.monotonic()
        super().note(text)

    def _show_begin(self, text: str) -> None:
        self._task = ""
        self.note(f"{text} ...")
        self._printed_at = 0.0

    def _show_end(self, text: str, seconds: float, ok: bool) -> None:
        if not ok:
            self.note(f"{text}: not completed, after {duration(seconds)}")

    def _tick(self) -> None:
        """Look at the current task now and then: no event comes while it goes on."""
        while not self._over.wait(0.5):
            if self._task and self._phase != TRAINING:
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


def make_progress(console: Console) -> Progress:
    """The display that fits where the output goes."""
    return LiveProgress(console) if console.is_terminal else PlainProgress(console)


def epoch_line(metric: Metric) -> str:
    """What stays on the screen of an epoch."""
    parts = [f"epoch {metric.epoch}/{metric.epochs}"]
    if metric.loss is not None and metric.accuracy is not None:
        parts.append(f"test loss {metric.loss:.3f} · test accuracy {percent(metric.accuracy)}")
    if metric.images_per_second is not None:
        parts.append(f"{metric.images_per_second:,.0f} images/s")
    return " · ".join(parts)


def percent(share: float) -> str:
    """A share of 1 as text, like `38.1 %`."""
    return f"{100 * share:.1f} %"


def clock(seconds: float) -> str:
    """Seconds as `m:ss` or `h:mm:ss`, for what counts down."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def duration(seconds: float) -> str:
    """Seconds for people: `4.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
