"""How many buckets gradients travel in: what the first steps of a run say."""

import statistics
from time import perf_counter

# More buckets let the exchange begin while the backward pass still runs. Where no core is to spare
# for it that gains nothing, and each bucket costs.
CANDIDATES = (1, 2, 4, 8)
# Below this size a bucket costs more than it can gain.
LEAST_BYTES = 2**20
# Candidates take turns, step by step. What the first round took does not count: it pays for
# connections and memory, and Horovod agrees upon every bucket once.
ROUNDS = 6
# By how much more than one bucket others must gain: single steps differ by more than that.
LEAST_GAIN = 0.02

STEPS = ROUNDS * len(CANDIDATES)


class BucketTuning:
    """Which number of buckets comes next, until each has had its turns.

    Every rank must see the same number of steps. What they measure differs; it is for the caller
    to add it up over all ranks before `best` decides.
    """

    def __init__(self, size_bytes: int) -> None:
        most = max(size_bytes // LEAST_BYTES, 1)
        self.candidates = tuple(count for count in CANDIDATES if count <= most)
        self._seconds: dict[int, list[float]] = {count: [] for count in self.candidates}
        self._steps = 0
        self._last = perf_counter()

    @property
    def is_complete(self) -> bool:
        """Whether each candidate has had its turns."""
        return self._steps == ROUNDS * len(self.candidates)

    @property
    def candidate(self) -> int:
        """The number of buckets of the step that comes next."""
        return self.candidates[self._steps % len(self.candidates)]

    def step_ended(self) -> None:
        """Take the time since the end of the step before for that of the candidate."""
        now = perf_counter()
        if self._steps >= len(self.candidates):
            self._seconds[self.candidate].append(now - self._last)
        self._steps += 1
        self._last = now

    def medians(self) -> list[float]:
        """Seconds of a step on this rank, by candidate."""
        return [statistics.median(self._seconds[count]) for count in self.candidates]

    def best(self, seconds: list[float]) -> int:
        """The candidate to stay with, by the `seconds` of all ranks together."""
        fastest, best = min(zip(seconds, self.candidates, strict=True))
        return best if fastest < (1 - LEAST_GAIN) * seconds[0] else self.candidates[0]
