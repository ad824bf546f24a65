#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: the public keys that the control node has, and whether its pair is right."""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.ssh_trust_lines import read_public_key
from ansible.module_utils.ssh_trust_pair import pair_differences


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "key": {"type": "path", "required": True, "no_log": False},
            "next": {"type": "str"},
            "directory_mode": {"type": "str", "required": True},
            "comment": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    key, following = module.params["key"], module.params["next"]
    try:
        own = read_public_key(Path(f"{key}.pub"))
        second = read_public_key(Path(f"{key}{following}.pub")) if following else None
    except ValueError as error:
        module.fail_json(
            msg=f"ssh_trust: {error}. Nothing was changed. Remove it together with its private "
            "key and run this again: then a new one is made."
        )
    mode = int(module.params["directory_mode"], base=8)
    module.exit_json(
        changed=False,
        pair_differences=pair_differences(Path(key), mode, None, module.params["comment"]),
        user_keys=[line for line in (own, second) if line],
        rotation=second is not None,
    )


if __name__ == "__main__":
    main()
