#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: the files of a data set with their checksums."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: dataset_list
short_description: Lists the files of a data set with their checksums
description:
  - Writes a manifest with path, size, time and SHA-256 of each file, and beside it, with C(.paths)
    behind its name, the paths as rsync takes them.
author: Trainyard
options:
  folder:
    description: The folder with the files, or a file that is all of it.
    type: path
    required: true
  manifest:
    description: Where the manifest is written.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: List the files
  dataset_list:
    folder: /home/ada/faces
    manifest: /srv/trainyard/cache/.manifests/faces
"""

RETURN = r"""
root:
  description: The folder that the paths are below.
  returned: always
  type: str
files:
  description: How many there are.
  returned: always
  type: int
bytes:
  description: How large they are together.
  returned: always
  type: int
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.dataset_files import DataError, find_files, list_files, write_manifest


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "folder": {"type": "path", "required": True},
            "manifest": {"type": "path", "required": True},
        },
    )
    options = module.params
    try:
        root, paths = find_files(options["folder"])
        files, size = write_manifest(options["manifest"], list_files(root, paths))
    except DataError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"The data could not be listed on the control node: {error}")
    module.exit_json(changed=False, root=root, files=files, bytes=size)


if __name__ == "__main__":
    main()
