#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: refuses a key file that holds another key than the expected one."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nvidia_driver_key
short_description: Refuses a key file that holds another key than the expected one
description:
  - Compares the fingerprints of all keys of the file. A file that is refused is removed, so that
    nothing can come to trust it.
author: Trainyard
options:
  path:
    description: The file, in ASCII armour.
    type: path
    required: true
  fingerprint:
    description: Fingerprint of the only key that may be in it, in hexadecimal.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Check the key
  nvidia_driver_key:
    path: /etc/apt/keyrings/trainyard-nvidia_driver.asc
    fingerprint: EB693B3035CD5710E231E123A4B469963BF863CC
"""

RETURN = r"""
fingerprints:
  description: What is in the file.
  returned: success
  type: list
  elements: str
"""

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
