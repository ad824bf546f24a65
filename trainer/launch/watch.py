"""Watches whether the ranks of this node make progress."""

import math
import os
from dataclasses import dataclass, field
from pathlib import Path

from trainer.heartbeat import WAITS
from trainer.launch.beats import Mark, beat_marks, log_marks, mark_of, read_beat
from trainer.launch.processes import program_processes, rank_processes
from trainer.launch.settings import Limits
from trainer.problems import Problem, Scalar

# Seconds between two looks at the processor time of the ranks.
PROCESSOR_LOOK = 5.0
# Fraction of a core below which a thread does not compute.
IDLE_FRACTION = 0.04
# A rank that computes without a step counts as lost after so many times the limit.
PATIENCE_WITH_COMPUTING = 10


@dataclass
class Watch:
    """Tells whether the ranks of this node make progress, by their changes to the run directory.

    It is to be made before mpirun is started: what is there by then is no sign of life. A change
    is dated by when it was seen, so that a clock that is set neither ends a run nor keeps one.

    Training is synchronous: what stops one rank stops all within a step, so those of this node
    speak for the others. A rank that computes is not taken for one that hangs: on a busy machine a
    batch may take long. Only after `PATIENCE_WITH_COMPUTING` times the limit it counts as lost.

    Attributes:
        limits: when the run counts as lost.
        began_at: when mpirun was started, monotonic seconds.
        is_project: the ranks are those of a project: a growing log and metrics show their progress.
    """

    run_dir: Path
    limits: Limits
    began_at: float
    is_project: bool = False
    _trains: bool = False
    _silences: int = 0
    _silence_told: bool = False
    _looked_at: float = -math.inf
    _computed_at: float = -math.inf
    _seconds: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A run that starts again brings the metrics that it has.
        self._metrics = self._metrics_mark()
        self._beats = self._marks()
        self._changed_at = self.began_at

    def problem(self, now: float) -> Problem | None:
        """Return what is wrong, or None; `now` is in monotonic seconds."""
        return self._full_disk() or self._standstill(now)

    def silence(self, now: float) -> int | None:
        """Return for how many seconds the ranks have been silent, once where that is long.

        To be asked after `problem`, which looks at them. Whoever is silent for long now and then,
        over an evaluation perhaps, is not told of it each time: the limit doubles with each.

        Args:
            now: monotonic seconds.
        """
        limit = self.limits.silence * 2**self._silences
        # Who computes is not silent, for however long.
        last = max(self._changed_at, self._computed_at)
        if not limit or self._silence_told or now - last < limit:
            return None
        self._silence_told = True
        self._silences += 1
        return int(now - last)

    def disregard_changes(self) -> None:
        """Take what has changed by now for no sign of life: the ranks were asked to write it."""
        self._beats = self._marks()

    def _full_disk(self) -> Problem | None:
        disk = os.statvfs(self.run_dir)
        free = disk.f_bavail * disk.f_frsize
        values: dict[str, Scalar] = {"path": str(self.run_dir), "host": os.uname().nodename}
        # Some file systems have no limit of inodes and count none.
        if self.limits.full_bytes and disk.f_files and not disk.f_favail:
            return Problem("node_inodes_used_up", values)
        if free >= self.limits.full_bytes:
            return None
        return Problem("node_disk_full", {**values, "bytes": free})

    def _standstill(self, now: float) -> Problem | None:
        self._look_at_files(now)
        limit = self.limits.stall if self._trains else self.limits.start
        last = self._changed_at if self._trains else self.began_at
        self._look_at_processors(now)
        if not limit or not self._is_still(now, last, limit):
            return None
        seconds = int(limit) if limit == int(limit) else limit
        return Problem("stalled" if self._trains else "start_stalled", {"seconds": seconds})

    def _is_still(self, now: float, last: float, limit: float) -> bool:
        """Whether there was neither a sign of life nor computing for `limit` seconds."""
        computes = now - self._computed_at < limit
        return now - last >= (PATIENCE_WITH_COMPUTING * limit if computes else limit)

    def _look_at_files(self, now: float) -> None:
        """Note which files have changed since the last look."""
        self._trains = (
            self._trains or self.is_project or self._metrics_mark() not in (None, self._metrics)
        )
        beats = self._marks()
        if not beats.items() <= self._beats.items():
            self._changed_at = now
            self._silence_told = False
        self._beats = beats

    def _marks(self) -> dict[str, Mark]:
        """The marks of all that ranks change when they get on."""
        if not self.is_project:
            return beat_marks(self.run_dir)
        logs = log_marks(self.run_dir)
        metrics = self._metrics_mark()
        return logs if metrics is None else {**logs, "metrics.jsonl": metrics}

    def _metrics_mark(self) -> Mark | None:
        return mark_of(self.run_dir / "metrics.jsonl")

    def _look_at_processors(self, now: float) -> None:
        """Note whether the main thread of a rank has used a processor since the last look.

        A rank that waits does not count: Horovod looks every millisecond whether the others are
        there.
        """
        elapsed = now - self._looked_at
        if elapsed < min(PROCESSOR_LOOK, (self.limits.stall or PROCESSOR_LOOK) / 4):
            return
        seconds = {}
        for process in program_processes() if self.is_project else rank_processes():
            beat = read_beat(self.run_dir, process.rank)
            if beat is None or beat.state != WAITS:
                spent = process.main_thread_seconds()
                if spent is not None:
                    seconds[process.pid] = spent
        used = [seconds[pid] - self._seconds[pid] for pid in seconds if pid in self._seconds]
        if used and max(used) > IDLE_FRACTION * elapsed:
            self._computed_at = now
        self._looked_at, self._seconds = now, seconds
