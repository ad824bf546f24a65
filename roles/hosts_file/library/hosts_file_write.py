#!/usr/bin/python
"""Ansible module: write the role's block into /etc/hosts, its names nowhere else in the file.

Of two lines for one name the upper one counts: ansible.builtin.blockinfile would leave it.
"""

import os
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node.setup.hosts_file import HostsFile, content


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
    # A link of an admin's stays one.
    path = os.path.realpath(parameters["path"])
    before = Path(path).read_bytes()
    wanted = {name: parameters[name] for name in HostsFile._fields}
    after = content(before, HostsFile(**wanted))
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
