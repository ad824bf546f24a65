#!/usr/bin/env python3
"""Records what the real nvidia-smi says of this machine: `python3 tests/roles/record_gpus.py NAME`.

The file of that name in data/gpus has the answers to the questions that the project asks. It needs
Python alone.
"""

import json
import re
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.append(str(CHECKOUT))

from node.machine.gpus import FIELDS, USER_FIELDS, ask_smi  # noqa: E402  # the line above

FOLDER = CHECKOUT / "tests/roles/data/gpus"
# The first line of the table.
DATE = re.compile(r"\A\w{3} \w{3} [ \d]\d [\d:]+ \d{4} *\n")


def query(what: str, fields: tuple[str, ...]) -> str:
    """Ask for fields; what is said, with the line's end that `ask_smi` takes away."""
    _, said = ask_smi(f"--query-{what}={','.join(fields)}", "--format=csv,noheader,nounits")
    return f"{said}\n" if said else ""


def main(name: str) -> None:
    """Write the file."""
    answers = {
        "gpus": query("gpu", FIELDS),
        "users": query("compute-apps", USER_FIELDS),
        "table": f"{DATE.sub('', ask_smi()[1])}\n",
    }
    (FOLDER / f"{name}.json").write_text(f"{json.dumps(answers, indent=2)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
