"""A rank that leaves a group of Gloo's does not wait for a thread that waits for the rank.

And it leaves none of the group's threads behind: one of them would abort the ending interpreter.
"""

import faulthandler
import os
import time

import torch
from torch import nn

from trainer.engines import DdpEngine
from trainer.optimizer import adamw

ROUNDS = 300
faulthandler.dump_traceback_later(270, exit=True)


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


# What torch and MPI start once, for whatever needs it.
from mpi4py import MPI  # noqa: E402, F401  # importing it joins MPI, which starts threads

nn.Linear(2, 2)(torch.randn(2)).sum().backward()
before = threads()
engine = DdpEngine("gloo")


def train(engine: DdpEngine) -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    model, _ = engine.distribute(model, adamw(model, 0.01, 0.05))
    model(torch.randn(8, 64)).sum().backward()
    engine.gather(list(range(50)))


for _ in range(ROUNDS):
    further = DdpEngine("gloo")
    train(further)
    further.close()
train(engine)
engine.close()
# A thread that was joined is in /proc until the kernel has taken it down.
ends = time.monotonic() + 10
while threads() != before and time.monotonic() < ends:
    time.sleep(0.01)
assert threads() == before, (threads(), before)
