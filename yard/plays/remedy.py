"""Commands as people are told to give them."""

import os
import re
import shlex
from pathlib import Path

from yard.core.project import Project
from yard.plays.fingerprint import RUNTIME

# Commands in sentences that go to the nodes of an inventory, and do not say yet of which.
OF_NODES = re.compile(
    r"\bmake (bootstrap|clean-up|data|doctor|exec|rotate-keys|setup|status|verify)\b"
    r"(?!.*\bINVENTORY=)"
)


def reaching(text: str, project: Project, inventory: Path) -> str:
    """A sentence whose commands reach the same nodes in the same way, when they are pasted."""
    return OF_NODES.sub(lambda found: addressed(found[0], project, inventory), text)


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
