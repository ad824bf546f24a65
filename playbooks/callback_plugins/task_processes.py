"""Ansible callback: what the processes of tasks need is made before there are any.

Ansible makes a process of itself for each task on each host. The first template of a process has
it load all filters, and the first condition all tests: loaded before, every process has them.

What Ansible has loaded by then, some hundred thousand objects, lives as long as the command.
Python's search for objects that nobody needs goes through all of it again in each process, and
writes into each object, so that the processes share no memory any more: half of the processor time
of such a process.

Ansible finds this plugin by itself, in the folder of plugins beside the playbooks.
"""

import gc
from typing import Any

from ansible.plugins.callback import CallbackBase
from ansible.template import Templar, trust_as_template

DOCUMENTATION = r"""
name: task_processes
type: aggregate
short_description: Makes before what the processes of tasks need
description:
  - Loads filters, tests and the lookup of environment variables when a playbook begins.
  - Leaves what is loaded by then out of Python's search for garbage, and has it
    search after every 10,000 new objects in place of 700. The processes of tasks inherit both.
author: Trainyard
options: {}
"""

# New objects between two searches. With 100,000 no more was gained, and more garbage waits in a
# process that follows a run for days.
NEW_OBJECTS = 10_000
# One of each kind has Ansible load all of them, but lookups, of which this one is in every play.
LOADS = "{{ [] | map('default', '') is match('') and lookup('ansible.builtin.env', 'HOME') }}"


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible has no types
    """Prepares the process of a playbook when it begins, of which those of tasks are copies."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "task_processes"

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Load, then set the search; what is there by now is never looked at again."""
        Templar().template(trust_as_template(LOADS))
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS)
