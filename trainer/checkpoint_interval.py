"""The interval between checkpoints: the cost of a checkpoint against that of a failure.

After J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9),
1974, and J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart
dumps", FGCS 22(3), 2006: where a checkpoint costs C seconds and a failure comes every M seconds,
the least time is lost with one every sqrt(2 C M) seconds.
"""

from math import sqrt

# Seconds. The first checkpoint of a run is taken after the least: its cost is not known before.
LEAST, MOST = 30.0, 600.0
# Of a run's time, for checkpoints; it counts more than the other bounds.
LARGEST_SHARE = 0.02


class CheckpointInterval:
    """Measures what checkpoints cost, and says how long to wait for the next.

    Args:
        seconds_between_failures: how long a run on its nodes goes on without one, on average.
    """

    def __init__(self, seconds_between_failures: float) -> None:
        self._between_failures = seconds_between_failures
        self._costs = 0.0
        self._count = 0

    def add(self, cost: float) -> None:
        """Count what one checkpoint has cost the run, in seconds."""
        self._costs += cost
        self._count += 1

    @property
    def cost(self) -> float:
        """The mean of those that were counted, in seconds; 0 before the first."""
        return self._costs / self._count if self._count else 0.0

    @property
    def seconds(self) -> float:
        """From one checkpoint to the next."""
        best = sqrt(2 * self.cost * self._between_failures)
        return max(min(best, MOST), LEAST, self.cost / LARGEST_SHARE)

    def __str__(self) -> str:
        hours = self._between_failures / 3600
        return (
            f"a checkpoint every {self.seconds:.0f} s within an epoch: one costs "
            f"{self.cost:.3g} s, and a failure is expected every {hours:,.3g} hours"
        )
