# Copyright Trainyard. Apache-2.0
"""What stays of a run's container on a node when the container goes."""

from __future__ import annotations

import glob
import json
import os

from ansible.module_utils.training_node_docker import inspect, logs

# In a run's directory: the environment of the ranks that nobody else shall see.
ENVIRONMENT = ".environment"


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
    """Remove the private keys of a run and its other secrets; return their paths."""
    keys = glob.glob(os.path.join(directory, "ssh", "*_ed25519*"))
    keys += glob.glob(os.path.join(directory, ENVIRONMENT))
    for key in keys:
        os.remove(key)
    return keys
