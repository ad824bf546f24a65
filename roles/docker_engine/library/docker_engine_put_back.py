#!/usr/bin/python
"""Ansible module: put back what an engine ran with before its settings were changed."""

import subprocess
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node.setup.docker_engine_settings import put_back, read
from ansible.module_utils.training_node.setup.docker_engine_units import SERVICE, start_error

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
