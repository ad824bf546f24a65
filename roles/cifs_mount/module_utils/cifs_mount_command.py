# Copyright Trainyard. Apache-2.0
"""Commands of this machine, and the error that ends the module."""

from __future__ import annotations

import os
import subprocess


class Refused(Exception):
    """What ends the module; its arguments are sentences for people, each with a remedy."""


def run(*command: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a command, both outputs as one text in English.

    Args:
        seconds: time limit.

    Raises:
        subprocess.TimeoutExpired: it ran longer.
    """
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=seconds,
        env={**os.environ, "LC_ALL": "C"},
        check=False,
    )
