"""Horovod's threads stand back behind the one that computes."""

import os
from pathlib import Path

from trainer.engines import HorovodEngine


def nice_values() -> dict[int, int]:
    threads = (int(path.name) for path in Path("/proc/self/task").iterdir())
    return {thread: os.getpriority(os.PRIO_PROCESS, thread) for thread in threads}


before = nice_values()
engine = HorovodEngine()
after = nice_values()
assert {after[thread] for thread in before} == {0}
started = {nice for thread, nice in after.items() if thread not in before}
assert started == {int(os.environ["TRAINYARD_EXCHANGE_NICE"])} == {10}
engine.barrier()
engine.close()
