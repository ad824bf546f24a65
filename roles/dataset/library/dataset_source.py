#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: a user's own data on the control node, fetched and unpacked."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: dataset_source
short_description: Has a user's own data on this machine
description:
  - Looks at a folder or a file. Fetches what has an address, and goes on with what came of it
    before. Unpacks an archive, of which nothing may lead out of its folder. Sees that all of it can
    be sent to nodes.
author: Trainyard
options:
  source:
    description: A folder, an archive or another file of this machine, or its HTTP address.
    type: str
    required: true
  sha256:
    description: SHA-256 of the file or archive, in hexadecimal digits. Empty where nobody knows.
    type: str
    default: ""
  kept:
    description: Take what was fetched from the address before, where that is still here.
    type: bool
    default: false
  cache:
    description: Directory for what is fetched and unpacked.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Have the data here
  dataset_source:
    source: https://data.example.com/faces.tar.gz
    cache: /srv/trainyard/cache
"""

RETURN = r"""
folder:
  description: The folder with the files; or a file, where that is all.
  returned: always
  type: str
sha256:
  description: Of the file or archive; empty for a folder.
  returned: always
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.dataset_files import DataError
from ansible.module_utils.dataset_source import have


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "source": {"type": "str", "required": True},
            "sha256": {"type": "str", "default": ""},
            "kept": {"type": "bool", "default": False},
            "cache": {"type": "path", "required": True},
        },
    )
    options = module.params
    try:
        had = have(options["source"], options["cache"], options["sha256"], options["kept"])
    except DataError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"The data could not be had on the control node: {error}")
    module.exit_json(changed=had.changed, folder=had.folder, sha256=had.sha256)


if __name__ == "__main__":
    main()
