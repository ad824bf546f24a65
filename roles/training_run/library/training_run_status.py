#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: which runs a node has, since when, and how far they are."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_run_status
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
"""

EXAMPLES = r"""
- name: Look what runs here
  training_run_status:
    root: /srv/trainyard/runs
"""

RETURN = r"""
runs:
  description: >-
    One entry a run: C(run), C(state) (C(starting), C(running), C(ended): it waits to be collected),
    C(owner), C(since), C(nodes) where they are known, and the newest line of C(metrics).
  returned: always
  type: list
  elements: dict
"""

import json
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.docker_socket import EngineError, containers
from ansible.module_utils.run_lock import is_live, read


def newest_metric(directory: str) -> dict[str, Any] | None:
    """Return the last whole line of a run's metrics."""
    try:
        with open(os.path.join(directory, "metrics.jsonl"), encoding="utf-8") as file:
            lines = [line for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return None
    newest: dict[str, Any] | None = json.loads(lines[-1]) if lines else None
    return newest


def main() -> None:
    module = AnsibleModule(
        argument_spec={"root": {"type": "path", "required": True}}, supports_check_mode=True
    )
    root = module.params["root"]
    if not os.path.isdir(root):
        module.fail_json(msg=f"there is no {root}: run make setup")
    try:
        states = {
            found["Labels"]["trainyard.run"]: found["State"]
            for found in containers("trainyard.run")
        }
        lock = read(root)
        live = lock is not None and is_live(lock)
    except EngineError as error:
        module.fail_json(msg=f"{error}: run make setup")
    left = {name for name in os.listdir(root) if os.path.isdir(os.path.join(root, name))}
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
                **{name: whose.get(name) for name in ("owner", "since", "nodes")},
            }
        )
    module.exit_json(changed=False, runs=runs)


if __name__ == "__main__":
    main()
