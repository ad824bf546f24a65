#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: the public keys that a machine has, and whether it is set up for them."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: ssh_trust_keys
short_description: Reads the public keys that a machine has for others
description:
  - Reads a host key, the key of a user, and the second one that a rotation brings, all in one go.
  - Compares the user's key pair and the settings of sshd with what they are to be, where that is
    given. Changes nothing.
author: Trainyard
options:
  host_key:
    description: The public host key. Without it no host key is read.
    type: path
  key:
    description: The user's private key. The public one lies beside it and ends in C(.pub).
    type: path
    required: true
  next:
    description: >-
      What a rotation puts behind the name of O(key) for the second key. Without it that is not
      read.
    type: str
  pair:
    description: What the key pair is compared with.
    type: dict
    suboptions:
      directory_mode:
        description: Mode of the directory around it.
        type: str
        required: true
      user:
        description: Whose it is, in a directory of root's. Without it owners do not matter.
        type: str
      comment:
        description: Comment of the public key.
        type: str
        required: true
  server:
    description: What the settings of sshd are compared with.
    type: dict
    suboptions:
      settings:
        description: The role's file.
        type: path
        required: true
      text:
        description: What is in it; without text it is not to be there.
        type: str
        required: true
"""

EXAMPLES = r"""
- name: Read the keys
  ssh_trust_keys:
    host_key: /etc/ssh/ssh_host_ed25519_key.pub
    key: /etc/ssh/ssh_trust/id_ed25519
    next: _next
"""

RETURN = r"""
host_key:
  description: Type and key of the host key; empty where none is asked for.
  returned: always
  type: str
user_keys:
  description: Type and key of the user's keys. A machine that is not set up yet has none.
  returned: always
  type: list
  elements: str
rotation:
  description: Whether there is the second key of a rotation.
  returned: always
  type: bool
pair_differences:
  description: In what the key pair differs.
  returned: with O(pair)
  type: list
  elements: str
shut_out_by:
  description: The setting of sshd that keeps the user of O(pair) out; empty where none does.
  returned: with O(server) and a user of O(pair)
  type: str
server_differences:
  description: In what the settings of sshd differ.
  returned: with O(server)
  type: list
  elements: str
"""

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
