"""The verb `reserve`: keeps runs off a node while it is worked on."""

from __future__ import annotations

import os
import time
from typing import Any

from ..check.problems import Problem, problem
from ..engine.containers import EngineError, containers
from ..failure import RefusedError, VerbError
from ..forms import LocalPath
from ..runs.lock import guarded, holder_values, holders, put, release, same, since_boot


def put_lock(root: str, lock: dict[str, Any]) -> Problem | None:
    """Write the lock, or return who has the node."""
    with guarded(root):
        for present in holders(root):
            if not same(present, lock):
                return problem("held", **holder_values(present))
        for container in containers("trainyard.run"):
            if container["State"] == "running":
                return problem("held_by_container", run=container["Labels"]["trainyard.run"])
        # The lock of a run that died stays: who comes next clears up after that run.
        put(root, lock)
    return None


def reserve(
    purpose: str, owner: str, host: str, root: LocalPath, state: str = "present"
) -> dict[str, Any]:
    """Keep runs off a machine while something else is done to it, or let them come again.

    Args:
        root: directory of all runs; where it is not there, no run can come.
        state: present, or absent to let them come.

    Returns:
        `reserved`: whether runs are kept off.

    Raises:
        RefusedError: a run has it.
        VerbError: no engine answers, so nobody can tell.
    """
    if not os.path.isdir(root):
        return {"reserved": False, "changed": False}
    lock = {
        "run": purpose,
        "owner": owner,
        "home": "",
        "nodes": [host],
        "host": host,
        "since": time.time(),
        "begun": since_boot(),
    }
    if state != "present":
        release(root, lock)
        return {"reserved": False}
    try:
        hindrance = put_lock(root, lock)
    except EngineError as error:
        raise VerbError("not_reserved", host=host, purpose=purpose, message=str(error)) from error
    if hindrance is not None:
        outcome = f"{host}: no {purpose}, because "
        raise RefusedError(outcome, [hindrance.asdict()])
    return {"reserved": True}
