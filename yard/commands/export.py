"""`make export`: the weights of a run as a file for plain PyTorch."""

import os
from pathlib import Path

from yard.core.context import Context
from yard.core.errors import Exit, RequestError
from yard.operations.trainer_here import checkpoint_of, run_trainer_here
from yard.operations.weights import SUFFIXES
from yard.plays.inventory import read_inventory
from yard.runs.measurements import find_trained


def export(context: Context, name: str, to: Path, which: str) -> Exit:
    """Write the weights of a run's checkpoint, and what they are for beside them.

    Args:
        which: best or last.
    """
    inventory = read_inventory(context.project, context.inventory)
    run = find_trained(context.project, name)
    to = to.expanduser().absolute()
    problems = file_problems(to)
    if problems:
        raise RequestError(*problems)
    checkpoint, _ = checkpoint_of(context, run, which)
    run_trainer_here(
        context, inventory, "export", checkpoint, ["--to", f"/to/{to.name}"], to=to.parent
    )
    context.console.print(
        f"{to} has the weights of {checkpoint.name} of {run.name}, and "
        f"{to.with_suffix('.json').name} describes the model (docs/training.md#weights)",
        markup=False,
    )
    return Exit.DONE


def file_problems(to: Path) -> list[str]:
    """What keeps weights, and what they are for, from being written to a file, an absolute path."""
    problems = []
    if to.suffix not in SUFFIXES:
        problems.append(f"TO={to.name}: must end in one of {', '.join(SUFFIXES)}")
    if to.is_dir() or not to.parent.is_dir():
        problems.append(f"TO={to}: must be a file in an existing folder")
    elif not os.access(to.parent, os.W_OK):
        problems.append(f"TO={to}: its folder cannot be written to")
    about = to.with_suffix(".json")
    if about.exists() and not to.exists():
        problems.append(
            f"TO={to.name}: {about.name} exists and would be overwritten: choose another name, or "
            "move it away"
        )
    return problems
