"""Notes how long the ranks of a project were silent: `silences.jsonl` in the run directory.

    {"time": 1795173612.5, "seconds": 600}

A line for each silence, when it was told of and how long it had lasted by then. yard shows them as
warnings; the run goes on.
"""

import contextlib
import json
import os
import time
from pathlib import Path

FILE = "silences.jsonl"


def note_silence(run_dir: Path, seconds: int) -> None:
    """Write down that the ranks have been silent for so long.

    A rank may have put a pipe or a link in the place of the file, and the disk may be full: then
    the log alone tells.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    line = json.dumps({"time": time.time(), "seconds": seconds}) + "\n"
    with contextlib.suppress(OSError):
        descriptor = os.open(run_dir / FILE, flags, 0o644)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
