"""The newest numbers of a training, and the words they come to."""

from dataclasses import dataclass

from yard.core.words import clock, percent
from yard.runs.metrics import Metric


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


def epoch_line(metric: Metric) -> str:
    """What stays on the screen of an epoch."""
    parts = [f"epoch {metric.epoch}/{metric.epochs}"]
    if metric.loss is not None and metric.accuracy is not None:
        parts.append(f"test loss {metric.loss:.3f} · test accuracy {percent(metric.accuracy)}")
    if metric.images_per_second is not None:
        parts.append(f"{metric.images_per_second:,.0f} images/s")
    return " · ".join(parts)
