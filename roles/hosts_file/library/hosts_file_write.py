#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: write the role's block into /etc/hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: hosts_file_write
short_description: Writes the role's block of hosts(5), and keeps the lines of others
description:
  - Takes the block's names out of all other lines. A line that has one stays as a comment, so that
    it comes back when the name leaves the block.
  - Replaces the file at once. In a container, where it is a mount that cannot be replaced, it is
    written in place.
author: Trainyard
extends_documentation_fragment: [files]
options:
  path:
    description: The file.
    type: path
    default: /etc/hosts
  begin:
    description: First line of the block.
    type: str
    required: true
  end:
    description: Last line of the block.
    type: str
    required: true
  lines:
    description: Lines of the block, without which there is none.
    type: list
    elements: str
    default: []
  names:
    description: Names that the block has.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Write the file
  hosts_file_write:
    begin: "# BEGIN hosts"
    end: "# END hosts"
    lines: [192.0.2.1 node1]
    names: [node1]
    owner: root
    group: root
    mode: "0644"
"""

import os
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.hosts_file_names import other_lines


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": "/etc/hosts"},
            "begin": {"type": "str", "required": True},
            "end": {"type": "str", "required": True},
            "lines": {"type": "list", "elements": "str", "default": []},
            "names": {"type": "list", "elements": "str", "default": []},
        },
        add_file_common_args=True,
        supports_check_mode=True,
    )
    parameters = module.params
    path, begin, end = parameters["path"], parameters["begin"], parameters["end"]
    before = Path(path).read_bytes()
    # A comment may hold bytes that are not UTF-8. They go back as they came.
    text = before.decode(encoding="utf-8", errors="surrogateescape")
    lines = other_lines(text, begin, end, parameters["names"])
    if parameters["lines"]:
        lines += [begin, *parameters["lines"], end]
    content = "".join(f"{line}\n" for line in lines)
    after = content.encode(encoding="utf-8", errors="surrogateescape")
    changed = after != before
    if changed and not module.check_mode:
        handle, temporary = tempfile.mkstemp(dir=module.tmpdir)
        with os.fdopen(handle, "wb") as file:
            file.write(after)
        module.atomic_move(temporary, path, unsafe_writes=True)
    changed = module.set_fs_attributes_if_different(
        module.load_file_common_arguments(parameters), changed
    )
    shown = {
        "before": before.decode(encoding="utf-8", errors="replace"),
        "after": after.decode(encoding="utf-8", errors="replace"),
    }
    module.exit_json(changed=changed, diff={**shown, "before_header": path, "after_header": path})


if __name__ == "__main__":
    main()
