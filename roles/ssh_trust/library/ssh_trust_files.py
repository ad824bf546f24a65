#!/usr/bin/python
"""Ansible module: the files in which a machine knows the nodes that trust each other."""

import os
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.ssh_trust_lines import lines_of, lines_of_control_nodes, text_of


def read(path: str) -> str | None:
    """Return the text of a file, None where there is none."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def write(module: AnsibleModule, path: str, text: str) -> tuple[bool, dict[str, str]]:
    """Have a file hold this text; return whether it changed, and the difference."""
    before = read(path)
    changed = before != text
    if changed and not module.check_mode:
        handle, temporary = tempfile.mkstemp(dir=module.tmpdir)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        module.atomic_move(temporary, path)
    if before is not None or not module.check_mode:
        attributes = module.load_file_common_arguments(module.params, path=path)
        changed = module.set_fs_attributes_if_different(attributes, changed)
    return changed, {"before": before or "", "after": text, "before_header": path}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "known_hosts": {"type": "path", "required": True},
            "known_hosts_lines": {"type": "list", "elements": "str", "required": True},
            "authorized_keys": {"type": "path", "no_log": False},
            "authorized_keys_lines": {
                "type": "list",
                "elements": "str",
                "default": [],
                "no_log": False,
            },
            "configuration": {"type": "path", "required": True},
            "configuration_text": {"type": "str", "required": True},
            "silent": {"type": "list", "elements": "str", "default": []},
            "control_owner": {"type": "str"},
            "user": {"type": "str", "required": True},
        },
        add_file_common_args=True,
        supports_check_mode=True,
        no_log=True,  # on the node: not a thousand lines in its journal
    )
    options = module.params

    def lines_to_keep(path: str) -> list[str]:
        """Return the lines that a file has of nodes that did not answer."""
        lines: list[str] = lines_of(read(path) or "", options["silent"], options["user"])
        return lines

    kept = lines_to_keep(options["known_hosts"])
    texts = {options["known_hosts"]: text_of(options["known_hosts_lines"] + kept)}
    if options["authorized_keys"]:
        keys = options["authorized_keys_lines"] + lines_to_keep(options["authorized_keys"])
        if options["control_owner"]:
            keys += lines_of_control_nodes(
                read(options["authorized_keys"]) or "",
                options["user"],
                options["control_owner"],
                options["authorized_keys_lines"],
            )
        texts[options["authorized_keys"]] = text_of(keys)
    texts[options["configuration"]] = options["configuration_text"]
    changed, differences = False, []
    for path, text in texts.items():
        file_changed, difference = write(module, path, text)
        changed = changed or file_changed
        if file_changed:
            differences.append(difference)
    module.exit_json(changed=changed, kept=kept, diff=differences)


if __name__ == "__main__":
    main()
