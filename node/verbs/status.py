"""The verb `status`: which runs a machine has, how far they are, and how busy it is."""

from __future__ import annotations

import os
import time
from typing import Any

from ..machine.apt import installer
from ..machine.load import Gpus, ProcessorLook, load
from ..runs.listing import runs_and_trouble

# Between two looks at the processor, in seconds: whoever asked waits for the second one. Its times
# are counted in hundredths for each core: on two cores one of them is 4 %.
LOOK_SECONDS = 0.12
# Where the kernel lists AMD's GPUs, if it drives any.
KFD = "/sys/class/kfd"


def status(root: str, host: str) -> dict[str, Any]:
    """Tell every run that holds this machine, has a container on it, or has left a directory.

    Args:
        root: directory of all runs, absolute or relative to the account's home.

    Returns:
        `runs`, as runs.listing has them; `load`, as machine.load has it; `time`, Unix seconds of
        this machine's clock; `apt`: who installs packages, command, pid and since, or None; and
        `trouble`: why its runs are not known, code and values, or None.
    """
    root = os.path.join(os.path.expanduser("~"), os.path.expanduser(root))
    before, looked_at = ProcessorLook(), time.monotonic()
    gpus = Gpus()
    runs, trouble = runs_and_trouble(root, host)
    time.sleep(max(0.0, looked_at + LOOK_SECONDS - time.monotonic()))
    samples = gpus.sample()
    if not samples and os.path.isdir(KFD):
        from ..machine.amd import sample_amd_gpus  # takes a quarter of a call

        samples = sample_amd_gpus()
    apt = installer()
    return {
        "runs": runs,
        "load": load(root, before, samples),
        "time": time.time(),
        "apt": apt._asdict() if apt else None,
        "trouble": trouble,
    }
