#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: which runs a node has, since when, and how far they are."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_node_status
short_description: Tells what runs on a node
description:
  - Lists every run that holds the node, has a container on it, or has left a directory there.
    Changes nothing.
author: Trainyard
options:
  root:
    description: Directory of all runs.
    type: path
    required: true
  host:
    description: Name of this node.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Look what runs here
  training_node_status:
    root: /srv/trainyard/runs
    host: node1
"""

RETURN = r"""
runs:
  description: >-
    One entry a run: C(run), C(state) (C(starting), C(running), C(ended): it waits to be collected),
    C(owner) and C(since) where they are known, the newest line of its metrics (C(metric)), and its
    C(nodes): where they are not known, this one.
  returned: always
  type: list
  elements: dict
"""

import json
import os
from contextlib import suppress
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node_docker import EngineError, containers
from ansible.module_utils.training_node_foreign import read_lines
from ansible.module_utils.training_node_lock import is_live, read

# More than two lines of metrics have.
LINE_BYTES = 64 << 10


def newest_metric(directory: str) -> dict[str, Any] | None:
    """Return the last whole line of a run's metrics, None where a rank wrote something else."""
    lines = read_lines(directory, "metrics.jsonl", size=LINE_BYTES)
    with suppress(IndexError, ValueError, RecursionError):
        newest = json.loads(lines[-1])
        return newest if isinstance(newest, dict) else None
    return None


def left_runs(root: str) -> set[str]:
    """Return the runs that have a directory; what else is kept there has a hidden name."""
    with os.scandir(root) as entries:
        return {entry.name for entry in entries if entry.is_dir() and entry.name[0] != "."}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "host": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    root, host = module.params["root"], module.params["host"]
    if not os.path.isdir(root):
        module.fail_json(msg=f"there is no {root}: run make setup")
    try:
        states = {
            container["Labels"]["trainyard.run"]: container["State"]
            for container in containers("trainyard.run")
        }
        lock = read(root)
        live = lock is not None and is_live(lock)
    except EngineError as error:
        module.fail_json(msg=f"{error}: run make setup")
    left = left_runs(root)
    held = {lock["run"]} if lock is not None and live else set()
    runs = []
    for run in sorted(left | states.keys() | held):
        whose = lock if lock is not None and lock["run"] == run else {}
        metric = newest_metric(os.path.join(root, run))
        alive = states.get(run) == "running" or run in held
        runs.append(
            {
                "run": run,
                "state": "ended" if not alive else "running" if metric else "starting",
                "metric": metric,
                "nodes": whose.get("nodes", [host]),
                **{name: whose.get(name) for name in ("owner", "since")},
            }
        )
    module.exit_json(changed=False, runs=runs)


if __name__ == "__main__":
    main()
