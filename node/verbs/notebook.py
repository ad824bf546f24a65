"""The verb `notebook`: waits for the Jupyter server of a run, and notes the way to it for root."""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any

from ..engine.containers import EngineError, is_running
from ..failure import VerbError
from ..forms import LocalPath
from ..runs.directory import RunDirectory
from ..runs.lock import container_of, own
from ..runs.untrusted import open_directory, read_end

# Below the ranks' directory: where Jupyter notes its servers, and the name of such a note.
RUNTIME = ".notebook"
NOTE = re.compile(r"jpserver-\d+\.json")
NOTE_BYTES = 64 << 10
TOKEN = re.compile(r"[0-9a-f]{32,128}")
# What root writes for the control node, in the directory of the run.
SERVER = "notebook.json"


def read_server(run: str) -> dict[str, Any] | None:
    """Return port and token of the server; None while there is none.

    A cell can write anything there, so only a port and a token of the expected form count.
    """
    try:
        descriptor = open_directory(run, "work", RUNTIME)
    except OSError:
        return None
    try:
        names = sorted(filter(NOTE.fullmatch, os.listdir(descriptor)))
    finally:
        os.close(descriptor)
    for name in names:
        try:
            _, content = read_end(run, "work", RUNTIME, name, size=NOTE_BYTES)
            note = json.loads(content)
            port, token = note["port"], note["token"]
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            continue  # it is still being written
        good_port = isinstance(port, int) and 1024 <= port < 65536
        if good_port and isinstance(token, str) and TOKEN.fullmatch(token):
            return {"port": port, "token": token}
    return None


def wait_for_server(
    root: str, run: dict[str, str], directory: RunDirectory, seconds: float
) -> dict[str, Any] | None:
    """Return port and token of the server as soon as it listens; None where the run has ended.

    Raises:
        EngineError: the engine does not answer.
        TimeoutError: the run goes on, and has no server.
    """
    deadline = time.monotonic() + seconds
    while True:
        if own(root, run) is None or not is_running(container_of(run["run"])):
            return None
        server = read_server(directory.path)
        if server is not None:
            return server
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.2)


def write_server(path: str, server: dict[str, Any]) -> None:
    """Write the file for root alone."""
    scratch = f"{path}.new"
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(server, file)
    os.replace(scratch, path)


def notebook(run_id: str, home: str, root: LocalPath, wait: float = 60.0) -> dict[str, Any]:
    """Wait for the Jupyter server of a run, and write the way to it into a file for root alone.

    Args:
        home: where its logs go on the control node.
        wait: seconds until it listens, at the most.

    Returns:
        `running`: whether the run goes on; and `path` of the file, which has `port` and `token`.

    Raises:
        VerbError: the server does not listen, or nobody can tell.
    """
    directory = RunDirectory(root, run_id)
    run = {"run": run_id, "home": home}
    path = os.path.join(directory.path, SERVER)
    try:
        server = wait_for_server(root, run, directory, wait)
        if server is not None:
            write_server(path, server)
    except TimeoutError:
        raise VerbError("no_notebook", seconds=round(wait)) from None
    except (EngineError, OSError) as error:
        raise VerbError("failed", message=str(error)) from error
    return {"running": server is not None, "path": path if server is not None else ""}
