# Copyright Trainyard. Apache-2.0
"""What stays of a run's container on a node when the container goes."""

from __future__ import annotations

import glob
import json
import os

from ansible.module_utils.docker_socket import inspect, logs


def keep_records(container: str, directory: str, host: str) -> None:
    """Write a container's state and output to `nodes/<host>` of the run's directory."""
    if not os.path.isdir(directory):
        return
    records = os.path.join(directory, "nodes", host)
    os.makedirs(records, exist_ok=True)
    with open(os.path.join(records, "container.json"), "w", encoding="utf-8") as file:
        json.dump(inspect(container), file, indent=2)
    with open(os.path.join(records, "container.log"), "wb") as file:
        file.write(logs(container))


def remove_keys(directory: str) -> list[str]:
    """Remove the private keys of a run; return their paths."""
    keys = glob.glob(os.path.join(directory, "ssh", "*_ed25519*"))
    for key in keys:
        os.remove(key)
    return keys
