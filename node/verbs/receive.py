"""The verb `receive`: takes the code of a run out of an archive that is sent along."""

from __future__ import annotations

import tarfile
from typing import Any

from ..failure import VerbError
from ..forms import Attachment, LocalPath
from ..machine.account import ranks_account
from ..runs.code import receive_run
from ..runs.code_listing import CodeError
from ..runs.directory import RunDirectory
from ..runs.disk_space import refusing


def receive(
    run_id: str,
    root: LocalPath,
    gid: int,
    code: dict[str, Any],
    host: str,
    attachment: Attachment,
) -> dict[str, Any]:
    """Give a run its code where the machine lacked some.

    Args:
        code: of each part, `trainer` and `project`, path to object; see runs.code_listing.

    Returns:
        `received`: how many files came.

    Raises:
        VerbError: they could not be brought here.
    """
    directory = RunDirectory(root, run_id)
    with refusing(host):
        try:
            received = receive_run(attachment, root, directory, code, ranks_account(0, gid)[1])
        except (CodeError, OSError, tarfile.TarError) as error:
            raise VerbError("code_not_brought", message=str(error)) from error
    return {"received": len(received)}
