#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: waits for the Jupyter server of a run, and notes the way to it for root."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_run_notebook
short_description: Waits for the Jupyter server of a run
description:
  - Waits until the server of a run (trainer/launch/notebook.py) listens, and writes its port and
    its token into C(notebook.json) of the run's directory, which root alone can read. The token is
    in no result of this module.
author: Trainyard
options:
  run_id:
    description: The run.
    type: str
    required: true
  home:
    description: Where its logs go on the control node; two runs of one id differ in it.
    type: str
    required: true
  root:
    description: Directory of all runs.
    type: path
    required: true
  wait:
    description: Seconds to wait for the server.
    type: float
    default: 60
"""

EXAMPLES = r"""
- name: Wait for the server
  training_run_notebook:
    run_id: 20261120T120000Z_notebook_node1
    home: /home/ada/trainyard/runs/20261120T120000Z_notebook_node1
    root: /srv/trainyard/runs
"""

RETURN = r"""
running:
  description: Whether the run goes on and its server listens; where not, the run has ended.
  returned: always
  type: bool
path:
  description: The file with port and token.
  returned: where it runs
  type: str
"""

import json
import os
import re
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node.engine.containers import EngineError, is_running
from ansible.module_utils.training_node.runs.lock import container_of, own
from ansible.module_utils.training_node.runs.untrusted import open_directory, read_end
from ansible.module_utils.training_node_directory import RunDirectory

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

    Args:
        run: directory of the run.
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


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "run_id": {"type": "str", "required": True},
            "home": {"type": "str", "required": True},
            "root": {"type": "path", "required": True},
            "wait": {"type": "float", "default": 60.0},
        },
    )
    options = module.params
    directory = RunDirectory(options["root"], options["run_id"])
    run = {"run": options["run_id"], "home": options["home"]}
    path = os.path.join(directory.path, SERVER)
    try:
        server = wait_for_server(options["root"], run, directory, options["wait"])
        if server is not None:
            write_server(path, server)
    except TimeoutError:
        module.fail_json(
            msg=f"The Jupyter server did not listen within {options['wait']:.0f} s. "
            "Its output is in logs/rank-0.log of the run."
        )
    except (EngineError, OSError) as error:
        module.fail_json(msg=str(error))
    if server is None:
        module.exit_json(changed=False, running=False)
    module.exit_json(changed=True, running=True, path=path)


if __name__ == "__main__":
    main()
