#!/usr/bin/python
# Copyright Trainyard. Apache-2.0
"""Ansible module: agrees with other operators of a node on what all of them have alike."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: training_node_site
short_description: Agrees with other operators of a node on settings that all have alike
description:
  - Compares the settings with the record that set-ups of all operators keep on the node, and writes
    them there. Fails, and changes nothing, where others have agreed on other values.
author: Trainyard
options:
  operator:
    description: Name of the checkout and the machine from which the node is set up.
    type: str
    required: true
  who:
    description: The person who does it.
    type: str
    required: true
  settings:
    description: What all have alike, name to value.
    type: dict
    required: true
  nodes:
    description: >-
      The nodes that are set up together. Fewer than before are refused, as another value is.
    type: list
    elements: str
    required: true
  take_over:
    description: >-
      Write these values although others agreed on other ones. The others are refused then, until
      they have the same.
    type: bool
    default: false
  state:
    description: >-
      V(absent) removes the record. It fails where others use the node too, unless O(take_over) says
      that it is taken from them.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Agree with others who use this node
  training_node_site:
    operator: ws1-3f2a9c1d:/home/ada/trainyard
    who: ada
    settings: {training_node_uid: 2000}
    nodes: [node1, node2]
"""

RETURN = r"""
problems:
  description: Where others agreed on other values, each with code, values and text.
  returned: where it failed for that
  type: list
  elements: dict
"""

from contextlib import nullcontext

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training_node.check.site import (
    Operator,
    SiteError,
    agree,
    alone,
    now,
    read_site,
    remove_site,
    write_site,
)


def enter(module: AnsibleModule) -> None:
    """Write what this operator gives, or fail with what others agreed on."""
    options = module.params
    me = Operator(options["operator"], options["who"], now())
    before = read_site()
    after, problems = agree(before, options["settings"], options["nodes"], me, options["take_over"])
    if problems:
        module.fail_json(
            msg="training_node: nothing was changed. On this node "
            + "; ".join(entry.text for entry in problems),
            problems=[entry.asdict() for entry in problems],
        )
    if after != before and not module.check_mode:
        write_site(after)
    module.exit_json(changed=after != before)


def leave(module: AnsibleModule) -> None:
    """Remove the record and its lock, or fail where others use the node."""
    options = module.params
    before = read_site()
    others = before.others(options["operator"]) if before is not None else []
    if others and not options["take_over"]:
        names = ", ".join(f"{entry.operator} ({entry.who}, {entry.when})" for entry in others)
        module.fail_json(
            msg=f"training_node: nothing was changed. Others use this node too: {names}. With "
            "training_node_take_over it is taken from them as well."
        )
    if before is not None and not module.check_mode:
        remove_site()
    module.exit_json(changed=before is not None)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "operator": {"type": "str", "required": True},
            "who": {"type": "str", "required": True},
            "settings": {"type": "dict", "required": True},
            "nodes": {"type": "list", "elements": "str", "required": True},
            "take_over": {"type": "bool", "default": False},
            "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
        },
        supports_check_mode=True,
    )
    try:
        if module.params["state"] == "absent":
            leave(module)
        # A dry run leaves nothing there, nor a lock.
        with nullcontext() if module.check_mode else alone():
            enter(module)
    except SiteError as error:
        module.fail_json(msg=f"training_node: {error}.")


if __name__ == "__main__":
    main()
