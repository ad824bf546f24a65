"""The verb `watch`: has the machine look at itself, for as long as somebody reads what it finds."""

from __future__ import annotations

import os
from typing import Any

from ..failure import VerbError
from ..forms import LocalPath
from ..runs.monitor import Monitor


def watch(root: LocalPath, host: str, every: float = 2.0) -> dict[str, Any]:
    """See that a monitor runs; it goes when nobody has asked for what it finds for a while.

    Args:
        every: seconds between two looks.

    Returns:
        `started`: whether there was none.

    Raises:
        VerbError: the machine is not set up.
    """
    if not os.path.isdir(root):
        raise VerbError("no_directory", path=root)
    return {"started": Monitor(root, host, every).start(), "changed": False}
