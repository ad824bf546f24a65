#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: the public keys that a machine has, and whether it is set up for them."""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.ssh_trust_lines import read_public_key
from ansible.module_utils.ssh_trust_pair import (
    pair_differences,
    server_differences,
    shut_out_by,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "host_key": {"type": "path"},
            "key": {"type": "path", "required": True, "no_log": False},
            "next": {"type": "str"},
            "pair": {
                "type": "dict",
                "options": {
                    "directory_mode": {"type": "str", "required": True},
                    "user": {"type": "str"},
                    "comment": {"type": "str", "required": True},
                },
            },
            "server": {
                "type": "dict",
                "options": {
                    "settings": {"type": "path", "required": True},
                    "text": {"type": "str", "required": True},
                },
            },
        },
        supports_check_mode=True,
    )
    key, following = module.params["key"], module.params["next"]
    try:
        host_key = None
        if module.params["host_key"]:
            host_key = read_public_key(Path(module.params["host_key"]))
            if host_key is None:
                module.fail_json(
                    msg=f"ssh_trust: there is no host key {module.params['host_key']}. Nothing "
                    "was changed. `ssh-keygen -A` there makes one."
                )
        own = read_public_key(Path(f"{key}.pub"))
        second = read_public_key(Path(f"{key}{following}.pub")) if following else None
    except ValueError as error:
        module.fail_json(
            msg=f"ssh_trust: {error}. Nothing was changed. Remove it together with its private "
            "key and run this again: then a new one is made."
        )
    compared: dict[str, list[str] | str] = {}
    if pair := module.params["pair"]:
        mode = int(pair["directory_mode"], base=8)
        found = pair_differences(Path(key), mode, pair["user"], pair["comment"])
        compared["pair_differences"] = found
    if server := module.params["server"]:
        found = server_differences(Path(server["settings"]), server["text"])
        compared["server_differences"] = found
        if pair and pair["user"]:
            of_user = ["-T", "-C", f"user={pair['user']},host=localhost,addr=127.0.0.1"]
            _, said, _ = module.run_command(["/usr/sbin/sshd", *of_user])
            compared["shut_out_by"] = shut_out_by(said, pair["user"])
    module.exit_json(
        changed=False,
        **compared,
        host_key=host_key or "",
        user_keys=[line for line in (own, second) if line],
        rotation=second is not None,
    )


if __name__ == "__main__":
    main()
