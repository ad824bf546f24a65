"""What stays of a run's container on a node when the container goes."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress

from ..engine.containers import inspect, logs
from .directory import ENVIRONMENT, RunDirectory

# What the node was when the run began.
FACTS = "facts.json"


def write_record(directory: RunDirectory, host: str, name: str, content: bytes) -> None:
    """Write a record of a node, of those that go home."""
    os.makedirs(directory.records(host), exist_ok=True)
    with open(os.path.join(directory.records(host), name), "wb") as file:
        file.write(content)


def json_record(document: object) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()


def keep_records(container: str, directory: RunDirectory, host: str) -> None:
    """Write a container's state and output, of those that go home.

    `make stop` and the command that follows a run may both end it. Whoever removes the container
    has written its records before: who then finds it gone leaves them as they are.
    """
    if not directory.exists():
        return
    state, said = inspect(container), logs(container)
    if state is not None and said is not None:
        write_record(directory, host, "container.json", json_record(state))
        write_record(directory, host, "container.log", said)


def remove_keys(directory: RunDirectory) -> list[str]:
    """Remove the private keys of a run and its other secrets; return their paths."""
    keys = []
    for folder, names in (
        (directory.ssh, [name for name in _listed(directory.ssh) if "_ed25519" in name]),
        (directory.config, [ENVIRONMENT]),
    ):
        for name in names:
            path = os.path.join(folder, name)
            # make stop and the command that follows a run may both end it.
            with suppress(FileNotFoundError):
                os.remove(path)
                keys.append(path)
    return keys


def remove_tree(path: str) -> None:
    """Remove what ranks wrote, however deep it is: Python's own would nest as deep as it is.

    Raises:
        OSError: something is still there.
    """
    removal = subprocess.run(
        ["rm", "--recursive", "--force", "--one-file-system", "--", path],
        check=False,
        capture_output=True,
        text=True,
    )
    if removal.returncode:
        raise OSError(removal.stderr.strip())


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []
