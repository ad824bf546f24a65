#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: keep which users and groups the role made."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ansible.module_utils.accounts_machine import record_lines
from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "users": {"type": "list", "elements": "str", "required": True},
            "groups": {"type": "list", "elements": "str", "required": True},
        },
        supports_check_mode=True,
    )
    path = Path(module.params["path"])
    lines = record_lines(module.params["users"], module.params["groups"])
    text = "".join(f"{line}\n" for line in lines)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    if text != before and not module.check_mode:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=module.tmpdir)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        module.atomic_move(temporary, str(path))
        path.chmod(0o644)
    module.exit_json(changed=text != before)


if __name__ == "__main__":
    main()
