# Copyright Trainyard. Apache-2.0
"""The verb `checkpoints`: lays ready what comes home of a run while it goes on."""

from __future__ import annotations

import os
from typing import Any

from ..failure import VerbError
from ..forms import LocalPath
from ..runs.collect import Limits, offer_live
from ..runs.directory import RunDirectory


def checkpoints(
    directory: LocalPath, host: str, carrier: int, gigabytes: float = 100.0, files: int = 10000
) -> dict[str, Any]:
    """Give the newest checkpoints and TensorBoard's events a further name, in `live` of the run.

    Args:
        carrier: id of the user that brings them home.
        gigabytes: how much of them may go home, in 10^9 bytes.

    Returns:
        `names`: of the checkpoints.

    Raises:
        VerbError: the run is over, or they cannot be laid ready.
    """
    run = RunDirectory(*os.path.split(directory))
    try:
        names = offer_live(run, host, carrier, Limits(int(gigabytes * 10**9), files))
    except FileNotFoundError:
        raise VerbError("run_over") from None
    except OSError as error:
        raise VerbError("not_laid_ready", message=str(error)) from error
    return {"names": names}
