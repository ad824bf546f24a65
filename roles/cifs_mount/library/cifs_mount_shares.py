#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: the CIFS shares of a machine, tried before fstab is touched."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: cifs_mount_shares
short_description: Mounts CIFS shares, and takes those away that are no longer wanted
description:
  - Brings credentials files, the role's block of fstab, mount points and mounts to what is asked.
    A share that is new or changed is mounted on the side first; one that fails ends the module with
    cause and remedy before anything is changed.
  - A share that is to go, or to change, must not be in use; the error names who holds it.
author: Trainyard
options:
  shares:
    description: The shares, without their passwords; the role's README has the keys.
    type: list
    elements: dict
    required: true
  passwords:
    description: The passwords of the shares, in the same order.
    type: list
    elements: raw
    required: true
  uid:
    description: User that files belong to where a share does not say.
    type: str
    default: "0"
  gid:
    description: Group that files belong to where a share does not say.
    type: str
    default: "0"
  seconds:
    description: How long a mount may take.
    type: int
    default: 20
  only_validate:
    description: Look for mistakes in what is asked, and do no more.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Mount the shares
  cifs_mount_shares:
    shares: [{src: //nas/training, path: /srv/share, username: trainer}]
    passwords: ["{{ vaulted_password }}"]
"""

RETURN = r"""
done:
  description: What was changed, or would be.
  returned: always
  type: list
  elements: str
"""

import os
import subprocess
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.cifs_mount_apply import announce, announce_mounts, apply, survey
from ansible.module_utils.cifs_mount_command import Refused, too_slow
from ansible.module_utils.cifs_mount_fstab import FSTAB, read_fstab
from ansible.module_utils.cifs_mount_share import Share, parse_share
from ansible.module_utils.cifs_mount_trial import try_shares
from ansible.module_utils.cifs_mount_validation import obstacles, unknown_owners


def read_shares(params: dict[str, Any]) -> tuple[list[Share], list[str]]:
    """The shares with their passwords, and sentences about passwords that are no texts."""
    shares, wrong = [], []
    for number, (entry, password) in enumerate(
        zip(params["shares"], params["passwords"], strict=True), start=1
    ):
        if not isinstance(password, str):
            wrong.append(
                f"share {number} ({entry.get('src')}): password must be a text. Put it in quotes: "
                "YAML takes 0123 for a number, and yes for a truth."
            )
            password = "unknown"
        shares.append(parse_share(entry, password, params["uid"], params["gid"]))
    return shares, wrong


def bring_about(module: AnsibleModule) -> list[str]:
    """Validate, try and apply; returns what was changed, or would be, a line each."""
    params, dry_run = module.params, module.check_mode
    shares, wrong = read_shares(params)
    fstab = read_fstab()
    sentences = obstacles(shares, wrong, fstab)
    if dry_run:
        # The role accounts has not made them.
        for warning in unknown_owners(shares):
            module.warn(warning)
    else:
        sentences += unknown_owners(shares)
    if sentences:
        raise Refused(*sentences)
    if params["only_validate"]:
        return []
    plan = survey(shares, fstab, params["seconds"], dry_run)
    # What is not mounted just as it is to be must be shown to work before it is written down.
    try_shares(plan.untried, params["seconds"], connect_only=dry_run)
    if dry_run:
        return [*announce(plan), *announce_mounts(plan)]

    def write_fstab(text: str) -> None:
        with tempfile.NamedTemporaryFile("w", dir=module.tmpdir, delete=False) as file:
            file.write(text)
        os.chmod(file.name, 0o644)
        module.atomic_move(file.name, str(FSTAB))

    changes: list[str] = apply(plan, fstab, write_fstab)
    return changes


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "shares": {"type": "list", "elements": "dict", "required": True},
            # Apart from the shares: what is hidden as a whole can be quoted in no way.
            "passwords": {"type": "list", "elements": "raw", "required": True, "no_log": True},
            "uid": {"type": "str", "default": "0"},
            "gid": {"type": "str", "default": "0"},
            "seconds": {"type": "int", "default": 20},
            "only_validate": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        changes = bring_about(module)
    except Refused as refusal:
        module.fail_json(msg="\n".join(["cifs_mount:", *refusal.args]))
    except subprocess.TimeoutExpired as error:
        module.fail_json(msg=f"cifs_mount: {too_slow(error)}")
    module.exit_json(changed=bool(changes), done=changes)


if __name__ == "__main__":
    main()
