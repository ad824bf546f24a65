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


def too_slow(error: subprocess.TimeoutExpired) -> str:
    """What to do after a command of `run` has reached its time limit."""
    return (
        f"`{' '.join(error.cmd)}` did not end within {error.timeout:g} s. Does the file server "
        "answer? Run this again when it does."
    )
