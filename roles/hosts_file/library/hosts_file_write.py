#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: write the role's block into /etc/hosts, its names nowhere else in the file.

Of two lines for one name the upper one counts: ansible.builtin.blockinfile would leave it.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

# A line that the block contradicts stays as a comment, followed by what is left of it: so it can
# come back.
FORMER = "#hosts_file was: "
LEFT = " #hosts_file left this"


def other_lines(text: str, begin: str, end: str, names: Iterable[str]) -> list[str]:
    """Return the lines outside the block, with the names of the block taken out of them.

    Args:
        text: of the whole file.
        begin: first line of the block.
        end: last line of the block.
        names: of the block that is to be written; all lines come back where there are none.
    """
    block = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}\n?", re.DOTALL)
    ours = {name.lower() for name in names}
    lines: list[str] = []
    for present in block.sub("", text).rstrip().splitlines():
        if present.endswith(LEFT):
            continue
        line = present.removeprefix(FORMER)
        address, *line_names = line.split("#")[0].split() or [""]
        others = [name for name in line_names if name.lower() not in ours]
        if others == line_names:
            lines.append(line)
            continue
        lines.append(FORMER + line)
        if others:
            lines.append(" ".join((address, *others)) + LEFT)
    return lines


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
        # Unsafe: in a container the file is a mount, which cannot be replaced.
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
