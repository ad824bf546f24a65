"""What every command works with."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from yard.core.interrupts import Interrupts
from yard.core.project import Project


@dataclass(frozen=True)
class Context:
    """The checkout, the inventory asked for, the screen, and whether the user wants to stop."""

    project: Project
    inventory: Path
    console: Console
    interrupts: Interrupts
