"""The verb `record`: what a machine knows of a run, for whoever goes on with it elsewhere."""

from __future__ import annotations

import json
import os
from typing import Any

from ..forms import LocalPath
from ..runs.directory import RunDirectory


def record(directory: LocalPath) -> dict[str, Any]:
    """Tell what is known of a run.

    Returns:
        `record`: its lock and manifest, as the verb `take` wrote them; None where there is none.
    """
    found = None
    try:
        with open(RunDirectory(*os.path.split(directory)).record, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        pass
    return {"record": found}
