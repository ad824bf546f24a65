#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: the directory of a run on a node, with keys that live as long as the run."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_run_keys
short_description: Makes the directory of a run with its SSH keys
description:
  - Makes the directories of a run, a host key for the sshd in this node's container and a client
    key for the launcher. Private keys never leave the node; the public ones are returned.
author: Trainyard
options:
  directory:
    description: Directory of the run.
    type: path
    required: true
  uid:
    description: User id that owns it.
    type: int
    required: true
  gid:
    description: Group id that owns it.
    type: int
    required: true
"""

EXAMPLES = r"""
- name: Make the run's directory
  training_run_keys:
    directory: /srv/trainyard/runs/20261120T120000Z_vit_cifar10_b64_e5_n2_p1
    uid: 2000
    gid: 2000
"""

RETURN = r"""
host_key:
  description: Public key of the sshd in this node's container.
  returned: always
  type: str
client_key:
  description: Public key that this node's container logs in with.
  returned: always
  type: str
"""

import os

from ansible.module_utils.basic import AnsibleModule

DIRECTORIES = {"": 0o755, "ssh": 0o700, "logs": 0o755, "checkpoints": 0o755}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "uid": {"type": "int", "required": True},
            "gid": {"type": "int", "required": True},
        },
    )
    directory, uid, gid = (module.params[name] for name in ("directory", "uid", "gid"))
    for name, mode in DIRECTORIES.items():
        path = os.path.join(directory, name)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
        os.chown(path, uid, gid)
    keys = {}
    for name in ("ssh_host_ed25519_key", "id_ed25519"):
        path = os.path.join(directory, "ssh", name)
        if not os.path.exists(path):
            module.run_command(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], check_rc=True
            )
        for part in (path, path + ".pub"):
            os.chown(part, uid, gid)
        with open(path + ".pub", encoding="ascii") as public:
            keys[name] = public.read().strip()
    module.exit_json(
        changed=True, host_key=keys["ssh_host_ed25519_key"], client_key=keys["id_ed25519"]
    )


if __name__ == "__main__":
    main()
