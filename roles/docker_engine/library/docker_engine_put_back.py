#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: put back what an engine ran with before its settings were changed."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: docker_engine_put_back
short_description: Puts back what an engine ran with, and tells why it did not start
description:
  - Puts back the files that M(docker_engine_settings) kept, and leaves the settings that were tried
    beside them.
author: Trainyard
options:
  kept:
    description: What was kept.
    type: path
    required: true
  log:
    description: Where the engine writes to, if not to the journal of its unit.
    type: path
  settings:
    description: The engine's settings.
    type: path
    required: true
  tried:
    description: Where the settings that were tried are left.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Put back what the engine ran with
  docker_engine_put_back:
    kept: /var/lib/trainyard/docker_engine/kept.json
    settings: /etc/docker/daemon.json
    tried: /var/lib/trainyard/docker_engine/daemon.json.tried
"""

RETURN = r"""
files:
  description: The files that were put back.
  returned: always
  type: list
  elements: str
reason:
  description: What the engine said last.
  returned: always
  type: str
"""

import subprocess
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.docker_engine_kept import put_back
from ansible.module_utils.docker_engine_plan import read
from ansible.module_utils.docker_engine_units import SERVICE, start_error

JOURNAL = ["journalctl", "--unit", SERVICE, "--since=-3min", "--output=cat", "--no-pager"]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kept": {"type": "path", "required": True},
            "log": {"type": "path"},
            "settings": {"type": "path", "required": True},
            "tried": {"type": "path", "required": True},
        },
    )
    kept, settings, tried = (Path(module.params[key]) for key in ("kept", "settings", "tried"))
    if module.params["log"]:
        log = read(Path(module.params["log"])) or ""
    else:
        log = subprocess.run(JOURNAL, capture_output=True, text=True).stdout
    files = put_back(kept, settings, tried)
    module.exit_json(changed=bool(files), files=files, reason=start_error(log))


if __name__ == "__main__":
    main()
