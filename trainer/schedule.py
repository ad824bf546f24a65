"""The learning rate as a function of the step."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from trainer.optimizer import without_compiler

# How the rate goes after the warm-up.
SCHEDULES = ("cosine", "step", "constant", "plateau")
# So many validations in a row without a lower loss make schedule `plateau` take a tenth.
PATIENCE = 5
# The parts of a run after which schedule `step` takes a tenth of the rate, as for ImageNet in He et
# al. (2016): after 30 and 60 of 90 epochs.
STEPS = (1 / 3, 2 / 3)


@dataclass(frozen=True)
class Schedule:
    """Linear warm-up from zero, then what the name says.

    `cosine` falls to zero in half a cosine (Loshchilov and Hutter, 2017), `step` falls to a tenth
    after each third of the run, `constant` stays, and so does `plateau`, see `plateau_factor`. It
    keeps no state: a resumed run asks for the rate of the step it is at.

    Attributes:
        warmup_steps: steps over which the rate rises; the last of them has the peak.
        name: one of `SCHEDULES`.
    """

    peak: float
    steps: int
    warmup_steps: int
    name: str = "cosine"

    def __call__(self, step: int) -> float:
        """Return the rate of a step, counted from 1 to `steps`."""
        if step <= self.warmup_steps:
            return self.peak * step / self.warmup_steps
        if self.name in ("constant", "plateau"):
            return self.peak
        if self.name == "step":
            return self.peak * 0.1 ** sum(step > part * self.steps for part in STEPS)
        progress = (step - self.warmup_steps) / (self.steps - self.warmup_steps + 1)
        return self.peak * 0.5 * (1 + math.cos(math.pi * progress))


def plateau_factor(losses: Iterable[float]) -> float:
    """What schedule `plateau` has the rate multiplied with after these losses of validations."""
    optimizer = without_compiler(torch.optim.SGD)([torch.zeros(1)], lr=1.0)
    plateau = ReduceLROnPlateau(optimizer, patience=PATIENCE - 1)
    for loss in losses:
        plateau.step(loss)
    factor: float = optimizer.param_groups[0]["lr"]
    return factor
