#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: refuses a file in ASCII armour that holds another key than the expected one.

Compares the fingerprints of all keys of the file. A file that is refused is removed, so that
nothing can come to trust it.
"""

from __future__ import annotations

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.nvidia_driver_openpgp import KeyFileError, fingerprints


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "fingerprint": {"type": "str", "required": True, "no_log": False},
        },
        supports_check_mode=True,
    )
    path, expected = module.params["path"], module.params["fingerprint"].replace(" ", "").upper()
    try:
        with open(path, encoding="utf-8") as file:
            found = fingerprints(file.read())
        trouble = "" if set(found) == {expected} else f"it holds {', '.join(found)}"
    except (KeyFileError, UnicodeDecodeError) as error:
        trouble = str(error)
    if trouble:
        if not module.check_mode:
            os.remove(path)
        module.fail_json(msg=f"the key {expected} is expected: {trouble}")
    module.exit_json(changed=False, fingerprints=found)


if __name__ == "__main__":
    main()
