"""Horovod begins when a tensor is there, not at its next look, and who waits for it sleeps."""

import faulthandler
import os
import time

import torch

# An hour between two looks: whatever waits for one does not end.
os.environ["HOROVOD_CYCLE_TIME"] = str(3600 * 1000)
faulthandler.dump_traceback_later(60, exit=True)

import horovod.torch as hvd  # noqa: E402  # after its settings

from trainer.engines import HorovodEngine  # noqa: E402

engine = HorovodEngine()
for number in range(20):
    values = torch.full((1024,), float(engine.rank + number))
    hvd.allreduce_(values, op=hvd.Average, name=f"{number % 3}.{len(values)}")
    assert torch.equal(values, torch.full((1024,), 0.5 + number))
engine.barrier()

# The other one comes late, and this thread's processor time shows how it waits.
if engine.rank == 1:
    time.sleep(2)
before = time.thread_time()
engine.barrier()
assert time.thread_time() - before < 0.5
engine.close()
