#!/usr/bin/env python3
"""Names the mistakes in an inventory's files, also where Ansible cannot read them.

    check_files.py INVENTORY...

Needs Ansible's Python, and starts no playbook. It sees what the files alone show; the role sees
all. Ends with 0 where the files are good and with 2 where they are not.
"""

import sys
from pathlib import Path

import ansible.module_utils
import yaml

ROLE = Path(__file__).resolve().parents[1]
for role in ("inventory_check", "training_node"):
    ansible.module_utils.__path__.append(str(ROLE.parent / role / "module_utils"))

from ansible.module_utils.inventory_check_checks import (  # noqa: E402  # found through the line above
    Expectation,
    check_files,
)
from ansible.module_utils.inventory_check_files import InventoryFiles  # noqa: E402
from ansible.module_utils.inventory_check_problem import report  # noqa: E402


def main(sources: list[str]) -> int:
    """Print what is wrong with the files; return the exit status."""
    settings = yaml.safe_load((ROLE / "vars/main.yml").read_text())
    checkout = ROLE.parents[1]
    files = InventoryFiles([str(Path(source).absolute()) for source in sources], checkout, checkout)
    known = settings["inventory_check_inventory_variables"]
    expectation = Expectation.of(ROLE.parent, known, settings["inventory_check_renamed"])
    problems = check_files(files, expectation)
    if not problems:
        return 0
    print(report(problems))
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
