"""The verb `checkpoints`: lays ready what comes home of a run while it goes on."""

from __future__ import annotations

import os
from typing import Any

from ..failure import VerbError
from ..forms import LocalPath
from ..machine.account import ranks_account
from ..runs.collect import Limits, offer_live
from ..runs.directory import RunDirectory
from ..runs.share import copy_to_share


def checkpoints(
    directory: LocalPath,
    host: str,
    carrier: int,
    gigabytes: float = 100.0,
    files: int = 10000,
    share: str = "",
    uid: int = 0,
    gid: int = 0,
) -> dict[str, Any]:
    """Give checkpoints, samples and TensorBoard's events a further name, in `live` of the run.

    Args:
        carrier: id of the user that brings them home.
        gigabytes: how much of them may go home, in 10^9 bytes.
        share: folder of a mounted share that gets the checkpoints too, as the verb `end` has it.
        uid, gid: who writes there.

    Returns:
        `names`: of the checkpoints; and `trouble`: why the share has not all of them, else empty.

    Raises:
        VerbError: the run is over, or they cannot be laid ready.
    """
    run = RunDirectory(*os.path.split(directory))
    try:
        names = offer_live(run, host, Limits(int(gigabytes * 10**9), files))
        account = ranks_account(uid, gid)
        trouble = copy_to_share(run, run.live, share, *account) if share else ""
        # From here on somebody else may write there: in the top folder last, so that nobody puts a
        # link where this is to come.
        for folder, _, _ in os.walk(run.live, topdown=False):
            os.chown(folder, carrier, -1, follow_symlinks=False)
    except FileNotFoundError:
        raise VerbError("run_over") from None
    except OSError as error:
        raise VerbError("not_laid_ready", message=str(error)) from error
    return {"names": names, "trouble": trouble}
