"""Asks Ansible itself what an inventory says, in a process of its own.

ansible-inventory does not resolve templates, and Ansible reads its settings when it is imported.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from yard.core.errors import RequestError
from yard.core.project import Project

# Has the file with the certificates that are trusted, where the site has some of its own.
CERTIFICATES = "PIP_CERT"


def ask(question: str, project: Project, inventory: Path) -> Any:
    """Return what Ansible says of an inventory, see `ask_ansible`. It takes a second.

    Passwords may be in it: it goes through a pipe, and into no log or callback of Ansible.

    Raises:
        RequestError: Ansible cannot read the inventory.
    """
    program = [sys.executable, "-m", "yard.plays.ask_ansible"]
    # The package is found wherever this one was found.
    package = str(Path(__file__).parents[2])
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    answer = subprocess.run(
        [*program, question, str(inventory.absolute()), str(project.root)],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        shown = project.shown(inventory)
        raise RequestError(f"cannot read {shown}", *answer.stderr.strip().splitlines()[-3:])
    return json.loads(answer.stdout)


def ask_environment(project: Project, inventory: Path) -> Mapping[str, str]:
    """How programs on this machine reach packages: proxies, mirrors and authorities of the site."""
    found: Mapping[str, str] = ask("environment", project, inventory)
    return found
