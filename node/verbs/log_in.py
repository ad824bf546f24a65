"""The verb `log_in`: SSH from this node to every other, as the training user."""

from __future__ import annotations

import pwd
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..failure import VerbError

# Logins under way at the same time.
PARALLEL = 16


def _log_in(account: pwd.struct_passwd, peer: str, seconds: int) -> dict[str, Any]:
    options = {
        "BatchMode": "yes",
        "ConnectTimeout": str(seconds),
        "ConnectionAttempts": "1",
        # A connection that is still open from earlier would prove nothing.
        "ControlPath": "none",
    }
    command = ["ssh", *(f"-o{name}={value}" for name, value in options.items()), peer, "true"]
    began = time.monotonic()
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds + 2,
            cwd="/",
            env={"HOME": account.pw_dir, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
        )
        trouble = "" if done.returncode == 0 else done.stderr.strip() or f"exit {done.returncode}"
    except subprocess.TimeoutExpired:
        trouble = f"no answer within {seconds} s"
    return {"seconds": round(time.monotonic() - began, 2), "trouble": trouble}


def log_in(user: str, peers: list[str], seconds: int) -> dict[str, Any]:
    """Log in on every peer at the same time, by the keys and the settings that this node has.

    Args:
        user: account on this node and on the peers.

    Returns:
        `logins`: by peer, how many seconds it took, and why it failed (empty where it did not).

    Raises:
        VerbError: `failed`: there is no such account.
    """
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise VerbError("failed", message=f"there is no user {user}: run make setup") from None
    with ThreadPoolExecutor(PARALLEL) as pool:
        results = list(pool.map(lambda peer: _log_in(account, peer, seconds), peers))
    return {"logins": dict(zip(peers, results))}
