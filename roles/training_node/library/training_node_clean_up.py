#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: trainer images of this machine that nothing needs any more."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_node_clean_up
short_description: Removes trainer images that nothing needs
description:
  - Looks at the images of O(repositories). Those of O(keep) stay, with what projects require added
    to them (C(<keep>-...)), and those that a container has. The others are removed where
    O(remove) says so.
  - Tells as well which runs have left files here that have not been brought home; they stay.
author: Trainyard
options:
  repositories:
    description: Names of images without their tags.
    type: list
    elements: str
    required: true
  keep:
    description: The image that is trained with, with its tag.
    type: str
    required: true
  root:
    description: Directory of all runs; empty where there is none.
    type: str
    default: ""
  remove:
    description: Whether anything is removed.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Look what nothing needs
  training_node_clean_up:
    repositories: [trainyard/trainer, trainyard/trainer-cuda]
    keep: trainyard/trainer:1f2e3d4c5b6a
    root: /srv/trainyard/runs
"""

RETURN = r"""
found:
  description: >-
    C(kind) (image or run), C(name), C(bytes) (of an image, with the layers that it shares with
    others), and C(kept): why it stays (current, in_use, not_home), or null: nothing needs it.
  returned: always
  type: list
  elements: dict
removed:
  description: Names of the images that were removed.
  returned: always
  type: list
  elements: str
trouble:
  description: What the engine could not do, or that there is none; else empty.
  returned: always
  type: str
"""

import os
from typing import Any
from urllib.parse import quote

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node.engine.docker import EngineError, ask, get

# Seconds to remove an image of some gigabytes.
REMOVAL_PATIENCE = 120.0


def images(repositories: list[str], keep: str) -> list[dict[str, Any]]:
    """Return the images of some repositories, and why each stays.

    Raises:
        EngineError: no engine answers.
    """
    used = {container["ImageID"] for container in get("/containers/json", all=1)}
    found = []
    for image in get("/images/json"):
        for name in image.get("RepoTags") or []:
            if name.rpartition(":")[0] not in repositories:
                continue
            kept = None
            if name == keep or name.startswith(f"{keep}-"):
                kept = "current"
            elif image["Id"] in used:
                kept = "in_use"
            found.append({"kind": "image", "name": name, "bytes": image["Size"], "kept": kept})
    return sorted(found, key=lambda each: str(each["name"]))


def runs(root: str) -> list[dict[str, Any]]:
    """Return the runs with files here; they go when these have been brought home."""
    if not os.path.isdir(root):
        return []
    with os.scandir(root) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir() and entry.name[0] != ".")
    return [{"kind": "run", "name": name, "bytes": None, "kept": "not_home"} for name in names]


def remove(name: str) -> None:
    """Remove an image by its name.

    Raises:
        EngineError: it cannot be removed.
    """
    status, body = ask("DELETE", f"/images/{quote(name, safe='')}", timeout=REMOVAL_PATIENCE)
    if status >= 400 and status != 404:
        raise EngineError(f"{name}: {body.decode(errors='replace').strip()}")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "repositories": {"type": "list", "elements": "str", "required": True},
            "keep": {"type": "str", "required": True},
            "root": {"type": "str", "default": ""},
            "remove": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    options = module.params
    removed: list[str] = []
    found: list[dict[str, Any]] = []
    trouble = ""
    try:
        found = images(options["repositories"], options["keep"])
        for entry in found:
            if entry["kept"] is None and options["remove"] and not module.check_mode:
                remove(entry["name"])
                removed.append(entry["name"])
    except EngineError as error:
        trouble = str(error)
    module.exit_json(
        changed=bool(removed),
        found=[*found, *runs(options["root"])],
        removed=removed,
        trouble=trouble,
    )


if __name__ == "__main__":
    main()
