#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: SSH from this node to every other, as the training user."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: cluster_check_ssh
short_description: Logs in from this node to every other
description:
  - Logs in as one user on every peer at the same time, each with a time limit, by the keys and the
    settings that this node has. Nothing is asked and nothing is learnt on the way.
author: Trainyard
options:
  user:
    description: Account on this node and on the peers.
    type: str
    required: true
  peers:
    description: Names of the other nodes.
    type: list
    elements: str
    required: true
  seconds:
    description: Time limit of one login.
    type: int
    required: true
"""

EXAMPLES = r"""
- name: Log in everywhere
  cluster_check_ssh:
    user: trainer
    peers: [node2, node3]
    seconds: 10
"""

RETURN = r"""
logins:
  description: By peer, how long it took, and why it failed (empty where it did not).
  returned: always
  type: dict
"""

import pwd
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible.module_utils.basic import AnsibleModule

# Logins under way at the same time.
PARALLEL = 16


def log_in(account: pwd.struct_passwd, peer: str, seconds: int) -> dict[str, Any]:
    """Log in on one peer."""
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


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "user": {"type": "str", "required": True},
            "peers": {"type": "list", "elements": "str", "required": True},
            "seconds": {"type": "int", "required": True},
        },
        supports_check_mode=True,
    )
    try:
        account = pwd.getpwnam(module.params["user"])
    except KeyError:
        module.fail_json(msg=f"there is no user {module.params['user']}: run make setup")
    peers, seconds = module.params["peers"], module.params["seconds"]
    with ThreadPoolExecutor(PARALLEL) as pool:
        results = list(pool.map(lambda peer: log_in(account, peer, seconds), peers))
    module.exit_json(changed=False, logins=dict(zip(peers, results, strict=True)))


if __name__ == "__main__":
    main()
