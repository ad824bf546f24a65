#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: merge settings into the engine's daemon.json, and take them out again."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: daemon_settings
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
  daemon_settings:
    options: {live-restore: true}
    record: /var/lib/trainyard/docker_engine
"""

import json
import os
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.engine_settings import merged, parsed, without


def read(path: Path) -> str | None:
    """Return the text of a file, None where there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


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
    path, record = Path(module.params["path"]), Path(module.params["record"], "settings.json")
    absent = module.params["state"] == "absent"
    options = {} if absent else module.params["options"]
    text = read(path)
    noted = json.loads(read(record) or "null")
    if absent and noted is None:
        module.exit_json(changed=False)
    before = noted["before"] if noted else text
    try:
        now, earlier = parsed(text), parsed(before)
    except ValueError as error:
        module.fail_json(
            msg=f"docker_engine: {path} cannot be read as JSON: {error}. Nothing was changed. "
            "Mend it, or move it away."
        )
    wanted = merged(without(now, noted["options"], earlier) if noted else now, options)
    network = [host for host in wanted.get("hosts") or [] if not host.startswith(("unix:", "fd:"))]
    if network and not absent:
        module.fail_json(
            msg=f"docker_engine: with hosts {', '.join(network)} in {path} the engine would listen "
            "on the network, where whoever reaches it is root. Nothing was changed. Take them out."
        )
    if absent and wanted == earlier:
        new = before
    elif absent and not wanted:
        new = None  # what others had merged in before is gone too
    elif wanted == now and text is not None:
        new = text
    else:
        new = json.dumps(wanted, indent=2, sort_keys=True) + "\n"
    note = {"before": before, "options": options}
    changed = new != text or absent or note != noted
    if changed and not module.check_mode:
        if new is None:
            path.unlink(missing_ok=True)
        elif new != text:
            write(module, path, new, 0o644)
        if absent:
            record.unlink()
        else:
            # The settings that it repeats may hold a proxy's password.
            write(module, record, json.dumps(note, indent=2) + "\n", 0o600)
    module.exit_json(
        changed=changed,
        diff={"before": text or "", "after": new or "", "before_header": str(path)},
    )


if __name__ == "__main__":
    main()
