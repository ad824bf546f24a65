"""Commands as people are told to give them."""

import os
import shlex
from pathlib import Path

from yard.core.project import Project
from yard.plays.fingerprint import RUNTIME


def addressed(command: str, project: Project, inventory: Path) -> str:
    """A command with what it takes to reach the same nodes in the same way, when it is pasted.

    The inventory of a command that names none is left out. A runtime that this command was not told
    is left out, too: there the inventory says it.
    """
    words = [command]
    if inventory.absolute() != project.own_inventory:
        words.append(f"INVENTORY={shlex.quote(project.shown(inventory))}")
    if runtime := os.environ.get(RUNTIME):
        words.append(f"RUNTIME={shlex.quote(runtime)}")
    return " ".join(words)
