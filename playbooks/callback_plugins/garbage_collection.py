# Copyright Trainyard. Apache-2.0
"""Ansible callback: has Python look for garbage rarely in the processes of a command.

Ansible makes a process of itself for each task on each host. What it has loaded until then, some
hundred thousand objects, lives as long as the command. Python's search for objects that nobody
needs goes through all of it again in each process, and writes into each object, so that the
processes share no memory any more: half of the processor time of such a process.

Ansible finds this plugin by itself, in the folder of plugins beside the playbooks.
"""

from __future__ import annotations

import gc
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: garbage_collection
type: aggregate
short_description: Has Python look for garbage rarely
description:
  - Leaves what is loaded when a playbook begins out of Python's search for garbage, and has it
    search after every 10,000 new objects in place of 700. The processes of tasks inherit both.
author: Trainyard
options: {}
"""

# New objects between two searches. With 100,000 no more was gained, and more garbage waits in a
# process that follows a run for days.
NEW_OBJECTS = 10_000


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible has no types
    """Sets the garbage collection when a playbook begins, before there are processes of tasks."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "garbage_collection"

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Set it; what is there by now is never looked at again."""
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS)
