"""The learning rate as a function of the step."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class WarmupCosine:
    """Linear warm-up from zero, then half a cosine down to zero (Loshchilov and Hutter, 2017).

    It keeps no state: a resumed run asks for the rate of the step it is at.

    Attributes:
        peak: the highest rate.
        steps: length of the run.
        warmup_steps: steps over which the rate rises; the last of them has the peak.
    """

    peak: float
    steps: int
    warmup_steps: int

    def __call__(self, step: int) -> float:
        """Return the rate of a step, counted from 1 to `steps`."""
        if step <= self.warmup_steps:
            return self.peak * step / self.warmup_steps
        progress = (step - self.warmup_steps) / (self.steps - self.warmup_steps + 1)
        return self.peak * 0.5 * (1 + math.cos(math.pi * progress))
