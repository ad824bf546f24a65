#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: what is new in the logs of a run on this node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_run_logs
short_description: Brings what is new in a run's logs
description:
  - Waits until a rank's log on this node grows, and returns its end. Ends overlap from call to
    call; whoever follows knows by the offsets what has been seen.
author: Trainyard
options:
  directory:
    description: Directory of the run.
    type: path
    required: true
  rank:
    description: The log of this rank alone.
    type: int
  whole:
    description: Return the logs from their beginning, and at once.
    type: bool
    default: false
  wait:
    description: Seconds to wait for something new.
    type: float
    default: 10
"""

EXAMPLES = r"""
- name: Follow the logs
  training_run_logs:
    directory: /srv/trainyard/runs/20261120T120000Z_vit_cifar10_b64_e5_n2_p1
  register: logs
  until: logs.over
  retries: 1000000
  delay: 0
"""

RETURN = r"""
logs:
  description: >-
    By file name: C(text) up to a whole line, and C(offset) where it begins in the file, in bytes.
  returned: always
  type: dict
over:
  description: Whether the run has ended and nothing will come any more.
  returned: always
  type: bool
"""

import os
import time
from fnmatch import fnmatchcase
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node.engine.containers import EngineError
from ansible.module_utils.training_node.runs.lock import is_live, read
from ansible.module_utils.training_node.runs.untrusted import logs_of, read_rank_file

# What a call returns at least of the end of a log: more than is written between two calls.
OVERLAP_BYTES = 16 * 1024
WHOLE_BYTES = 1024 * 1024
# A log written to this shortly before a call may have grown between two calls; in seconds.
RECENT = 3.0
LOOK, ASK = 0.3, 2.0


class Logs:
    """The ranks' logs in the directory of a run.

    Args:
        directory: of the run.
        rank: the only one to look at; None for all.
    """

    def __init__(self, directory: str, rank: int | None) -> None:
        self._directory = directory
        self._pattern = "rank-*.log" if rank is None else f"rank-{rank}.log"

    def sizes(self) -> dict[str, tuple[int, float]]:
        """Return size in bytes and time of the last change, Unix seconds, by file name."""
        return {
            name: (about.st_size, about.st_mtime)
            for name, about in logs_of(self._directory).items()
            if fnmatchcase(name, self._pattern)
        }

    def read(self, size: int) -> dict[str, dict[str, Any]]:
        """Return the last `size` bytes of each up to the last whole line, and where they begin.

        Raises:
            OSError: one is gone.
        """
        return {name: self._read_end(name, size) for name in sorted(self.sizes())}

    def _read_end(self, name: str, size: int) -> dict[str, Any]:
        offset, content = read_rank_file(self._directory, "logs", name, size=size)
        content = content[: content.rfind(b"\n") + 1]
        if offset:  # begin with a whole line
            begin = content.find(b"\n") + 1
            offset, content = offset + begin, content[begin:]
        return {"offset": offset, "text": content.decode(errors="replace")}


def is_over(directory: str) -> bool:
    """Tell whether the run no longer holds this node."""
    root, run_id = os.path.split(directory)
    try:
        return not any(lock["run"] == run_id and is_live(lock) for lock in read(root))
    except EngineError:
        return False


def wait_for_more(logs: Logs, directory: str, seconds: float) -> bool:
    """Wait until a log grows; return whether the run is over."""
    before = logs.sizes()
    deadline = time.monotonic() + seconds
    asked_at = float("-inf")
    while time.monotonic() < deadline:
        if time.monotonic() - asked_at >= ASK:
            asked_at = time.monotonic()
            if is_over(directory):
                return True
        if logs.sizes() != before:
            time.sleep(LOOK)  # one line seldom comes alone
            return False
        time.sleep(LOOK)
    return False


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "rank": {"type": "int"},
            "whole": {"type": "bool", "default": False},
            "wait": {"type": "float", "default": 10.0},
        },
        supports_check_mode=True,
    )
    directory, rank = module.params["directory"], module.params["rank"]
    logs = Logs(directory, rank)
    recent = any(time.time() - changed < RECENT for _, changed in logs.sizes().values())
    wait = 0.0 if module.params["whole"] else RECENT / 3 if recent else module.params["wait"]
    over = wait_for_more(logs, directory, wait) or is_over(directory)
    try:
        said = logs.read(WHOLE_BYTES if module.params["whole"] else OVERLAP_BYTES)
    except OSError:
        said, over = {}, True  # collected meanwhile
    module.exit_json(changed=False, logs=said, over=over)


if __name__ == "__main__":
    main()
