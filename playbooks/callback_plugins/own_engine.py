"""Ansible callback: tasks ask the engine of this machine, whatever DOCKER_HOST says.

Docker's client hears of DOCKER_CONTEXT, Ansible's modules do not, and what root does by sudo hears
of neither: an image would be built by one engine and looked for at another one. With `make` it is
the environment of the whole command that forgets them; for a playbook alone it is done here.

Ansible finds this plugin by itself, in the folder of plugins beside the playbooks.
"""

import sys
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: own_engine
type: aggregate
short_description: Tasks ask the engine of this machine, whatever DOCKER_HOST says
description:
  - Takes DOCKER_HOST, DOCKER_CONTEXT and what belongs to them out of the environment of tasks, and
    says so where they name another engine.
author: Trainyard
options: {}
"""

# The checkout, of which the package `yard` is a part.
ROOT = Path(__file__).parents[2]


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible has no types
    """Changes the environment of a playbook when it begins, which its tasks inherit."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "own_engine"

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Have it name this machine's engine."""
        sys.path.append(str(ROOT))
        from yard.core.unheard import ENGINE, ask_own_engine, other_engine

        if told := other_engine():
            self._display.warning(f"{told} is ignored: tasks use the engine at {ENGINE}")
        ask_own_engine()
