"""Has the Pythons that tests start keep the byte code of Ansible's modules."""

import os
from pathlib import Path

# What `bytecode/sitecustomize.py` is found by
FOLDER = str(Path(__file__).parent / "bytecode")


def keep_bytecode() -> None:
    """Set PYTHONPATH for all that this process starts from now on."""
    there = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if FOLDER not in there:
        os.environ["PYTHONPATH"] = os.pathsep.join([FOLDER, *there])
