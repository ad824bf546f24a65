#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: merge settings into the engine's daemon.json, and take them out again."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: docker_engine_settings
short_description: Merges settings into the Docker engine's daemon.json
description:
  - Keeps every key that it is not given. Notes what the file was before, so that the keys can be
    taken out again and leave the file as it was.
  - Refuses a file that is not JSON, and settings that let the engine listen on the network.
author: Trainyard
options:
  options:
    description: Keys to merge, dictionaries within them too. Where they go, the record tells which.
    type: dict
    default: {}
  path:
    description: The engine's settings.
    type: path
    default: /etc/docker/daemon.json
  record:
    description: Directory for the note of what was there before; each owner of settings has one.
    type: path
    required: true
  state:
    description: Whether the keys are in the file.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Write the engine's settings
  docker_engine_settings:
    options: {live-restore: true}
    record: /var/lib/trainyard/docker_engine
"""

import json
import os
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.docker_engine_plan import SettingsError, make_plan, note_file


def write(module: AnsibleModule, path: Path, text: str, mode: int) -> None:
    """Replace a file at once; one that is there keeps its owner and mode."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    new = not path.exists()
    module.atomic_move(temporary, str(path))
    if new:
        path.chmod(mode)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "options": {"type": "dict", "default": {}},
            "path": {"type": "path", "default": "/etc/docker/daemon.json"},
            "record": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    path, record = Path(module.params["path"]), Path(module.params["record"])
    absent = module.params["state"] == "absent"
    try:
        plan = make_plan(path, record, module.params["options"], absent)
    except SettingsError as error:
        module.fail_json(msg=str(error))
    if plan.changed and not module.check_mode:
        if plan.new is None:
            path.unlink(missing_ok=True)
        elif plan.new != plan.text:
            write(module, path, plan.new, 0o644)
        if absent:
            note_file(record).unlink()
        else:
            # The settings that it repeats may hold a proxy's password.
            write(module, note_file(record), json.dumps(plan.note, indent=2) + "\n", 0o600)
    module.exit_json(
        changed=plan.changed,
        diff={"before": plan.text or "", "after": plan.new or "", "before_header": str(path)},
    )


if __name__ == "__main__":
    main()
